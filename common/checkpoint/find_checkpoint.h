#ifndef COHORT_COMMON_CHECKPOINT_FIND_CHECKPOINT_H_
#define COHORT_COMMON_CHECKPOINT_FIND_CHECKPOINT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "common/checkpoint/checkpoint_directory.h"

namespace cohort {

// Appends a line to `text` for each checkpoint that is not complete.
RefusedCallback LinesInto(std::string* text);

// Returns the checkpoint that `path` names. This is a checkpoint itself (its directory or
// manifest.json), the newest complete one of a checkpoint directory, or, for DIRECTORY/best, the
// best complete one of a job with keep_best. Adds a line to `refused` for every newer or better
// checkpoint that is not complete. `after_step`: as for VerifyFiles (manifest.h). Errors: NotFound
// if there is none.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path, std::string* refused,
                                           std::optional<uint64_t> after_step = std::nullopt);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_FIND_CHECKPOINT_H_
