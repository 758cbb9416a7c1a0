#ifndef COHORT_DEPLOY_LAUNCHER_IN_PROCESS_RUN_H_
#define COHORT_DEPLOY_LAUNCHER_IN_PROCESS_RUN_H_

#include <absl/status/statusor.h>

#include "deploy/launcher/local_cluster.h"
#include "deploy/launcher/train_plan.h"

namespace cohort {

// Runs `cohort local --in_process`: the tasks of a job as objects of this process, with the console
// output of RunLocal. Returns the exit code: the chief's; the evaluator's if that fails after the
// chief has finished; 128 + signal. Errors: those of PrepareRun and of the tasks' start. For a
// main(): it blocks signals, and ends the process if its storage hangs.
absl::StatusOr<int> RunInProcess(const LocalOptions& options);

// Runs `cohort train`: the same, but the replicas call the owners of the variables directly.
absl::StatusOr<int> TrainInProcess(const TrainPlan& plan);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_IN_PROCESS_RUN_H_
