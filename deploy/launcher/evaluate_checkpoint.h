#ifndef COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_
#define COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_

#include <string>

namespace cohort {

// What `cohort evaluate` is told.
struct EvaluateOptions {
  std::string checkpoint;  // a checkpoint, or what FindCheckpoint makes of it
  std::string log_dir;     // "": figures are only printed
  int threads = 0;
  std::string bin_dir;
};

// Runs cohort-evaluator once on one checkpoint, on the data that the checkpoint's job names.
// Returns its exit code, or that of an error about the checkpoint, after printing it.
int EvaluateCheckpoint(const EvaluateOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_EVALUATE_CHECKPOINT_H_
