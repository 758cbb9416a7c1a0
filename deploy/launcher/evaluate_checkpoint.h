#ifndef COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

namespace cohort {

// The flags of `cohort evaluate`.
struct EvaluateOptions {
  std::string checkpoint;  // a path for FindCheckpoint
  std::string log_dir;     // "": figures are only printed
  int threads = 0;
  std::vector<std::string> plugins;
  std::string bin_dir;
};

// Runs cohort-evaluator once on one checkpoint, with the data that the checkpoint's job names.
// Returns its exit code. Errors: those of FindCheckpoint; exit 64 for a number of threads.
absl::StatusOr<int> EvaluateCheckpoint(const EvaluateOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_
