#ifndef COHORT_DEPLOY_LAUNCHER_GENERATE_DATA_H_
#define COHORT_DEPLOY_LAUNCHER_GENERATE_DATA_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace cohort {

// The flags of `cohort generate`.
struct GenerateOptions {
  std::string kind;  // "criteo"
  int64_t records = 0;
  int64_t begin = 0;
  std::string output;
  uint64_t seed = 0;
  std::string vocabulary = "100000";
  bool hashed = false;
  bool bags = false;
};

// Writes a CSV file of records of a ClickLog (common/data/click_log.h): label, I1 to I13, C1 to
// C26; the ids of a bag are separated by `|`. The file gets its name when it is complete.
//
// Returns the text for the user: what was written, and the figures that the hidden model itself
// reaches on these records, which no model can exceed but by chance. Errors: exit 64 for the flags;
// exit 73 if the file cannot be created; the system's errors.
absl::StatusOr<std::string> GenerateData(const GenerateOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_GENERATE_DATA_H_
