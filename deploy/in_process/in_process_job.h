#ifndef COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_JOB_H_
#define COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_JOB_H_

#include "deploy/in_process/in_process_task.h"

namespace cohort {

// Starts an evaluator as an object of this process. It writes its results to its log instead of
// stdout. Errors: as StartInProcessServer, and those of Evaluator::Create.
StartedTask StartInProcessEvaluator(const InProcessTaskOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_IN_PROCESS_IN_PROCESS_JOB_H_
