#ifndef COHORT_TESTS_FUZZ_FUZZ_TARGET_H_
#define COHORT_TESTS_FUZZ_FUZZ_TARGET_H_

#include <absl/status/status.h>

#include <string>
#include <string_view>
#include <vector>

namespace cohort::fuzz {

// A decoder of bytes from elsewhere, and good inputs to begin with. The decoder may refuse
// anything, with an error that has a message.
struct FuzzTarget {
  const char* name;
  absl::Status (*decode)(std::string_view bytes);
  std::vector<std::string> (*seeds)();
};

// One file of this folder for each.
FuzzTarget SafetensorsTarget();
FuzzTarget ManifestTarget();
FuzzTarget JournalTarget();
FuzzTarget PushPullTarget();
FuzzTarget KerasJsonTarget();
FuzzTarget NpyTarget();
FuzzTarget NpzTarget();
FuzzTarget TfRecordTarget();
FuzzTarget JsonLinesTarget();
FuzzTarget LibsvmTarget();
FuzzTarget ImageTarget();
FuzzTarget TracedModelTarget();

// The path of a file in memory that has these bytes until the next call.
std::string FileOf(std::string_view bytes);
// The path of a new directory, which is deleted at the end of this process.
std::string NewDirectory();
// A file of the repository.
std::string RepositoryFile(const std::string& path);

}  // namespace cohort::fuzz

#endif  // COHORT_TESTS_FUZZ_FUZZ_TARGET_H_
