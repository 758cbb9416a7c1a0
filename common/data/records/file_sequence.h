#ifndef COHORT_COMMON_DATA_RECORDS_FILE_SEQUENCE_H_
#define COHORT_COMMON_DATA_RECORDS_FILE_SEQUENCE_H_

#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/base/fnv1a.h"
#include "common/base/status.h"

namespace cohort {

// Several files whose records are one list. `File` has records() and file(), its FileBytes.
template <typename File>
class FileSequence {
 public:
  // Errors: those of FileBytes::SampledCrc32.
  absl::Status Add(File file) {
    COHORT_ASSIGN_OR_RETURN(const uint32_t crc32, file.file().SampledCrc32());
    hash_ = Fnv1a(fmt::format("{}\xff{} {} {}\xff", file.file().path(), file.file().size(), crc32,
                              file.records()),
                  hash_);
    ends_.push_back(records() + file.records());
    files_.push_back(std::move(file));
    return absl::OkStatus();
  }

  uint64_t records() const { return ends_.empty() ? 0 : ends_.back(); }
  const std::vector<File>& files() const { return files_; }
  // Identifies the names and the contents of the files.
  std::string fingerprint() const { return fmt::format("{} files {:016x}", files_.size(), hash_); }

  // Returns the file that holds record `number` of all files, and the number there.
  std::pair<const File&, uint64_t> Find(uint64_t number) const {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), number);
    const File& file = files_[static_cast<size_t>(end - ends_.begin())];
    return {file, number - (*end - file.records())};
  }

 private:
  std::vector<File> files_;
  std::vector<uint64_t> ends_;  // the records up to each file's end
  uint64_t hash_ = kFnv1aBasis;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_FILE_SEQUENCE_H_
