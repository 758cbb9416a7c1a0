#ifndef COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_JOB_H_
#define COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_JOB_H_

#include "deploy/in_process/in_process_task.h"

namespace cohort {

// The tasks that run a job file, as objects of this process.

// Starts a chief with its job runner. Its end has the exit code of the job. Errors: as
// StartInProcessServer, and those of the job file.
StartedTask StartInProcessChief(const InProcessTaskOptions& options);

// Starts an evaluator. It writes its results to its log instead of stdout. Errors: as
// StartInProcessServer, and those of Evaluator::Create.
StartedTask StartInProcessEvaluator(const InProcessTaskOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_JOB_H_
