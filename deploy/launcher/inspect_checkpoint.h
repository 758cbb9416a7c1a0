#ifndef COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_

#include <absl/status/statusor.h>

#include <string>

namespace cohort {

// Returns the checkpoint that `path` names: a checkpoint itself (its directory or manifest.json),
// the newest whole one of a checkpoint directory, or, for DIRECTORY/best, the best whole one of a
// job with keep_best. Writes a line to `refused` for every newer, or better, one that is not whole.
// Errors: NotFound if there is none.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path, std::string* refused);

// Returns what `cohort inspect` prints: job and step, which checkpoint is the best, the variables
// with their shapes and slots, the shard plan, the files (their checksums verified), and the other
// checkpoints beside it. Errors: NotFound; DataLoss naming the file and what is wrong.
absl::StatusOr<std::string> InspectCheckpoint(const std::string& path);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_INSPECT_CHECKPOINT_H_
