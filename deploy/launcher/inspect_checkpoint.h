#ifndef COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_

#include <absl/status/statusor.h>

#include <string>

namespace cohort {

// Returns the checkpoint that `path` names. This is a checkpoint itself (its directory or
// manifest.json), the newest complete one of a checkpoint directory, or, for DIRECTORY/best, the
// best complete one of a job with keep_best. Adds a line to `refused` for every newer or better
// checkpoint that is not complete. Errors: NotFound if there is none.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path, std::string* refused);

// Returns the output of `cohort inspect`: job and step, the best checkpoint, the variables with
// their shapes and slots, the shard plan, the files (with verified checksums), and the other
// checkpoints in the same directory. Errors: NotFound; DataLoss naming the file and what is wrong.
absl::StatusOr<std::string> InspectCheckpoint(const std::string& path);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_
