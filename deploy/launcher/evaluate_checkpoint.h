#ifndef COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_

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
// Returns its exit code. If the checkpoint has an error, prints the error and returns its exit
// code.
int EvaluateCheckpoint(const EvaluateOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_
