#ifndef COHORT_DEPLOY_STRATEGY_STRATEGY_TASKS_H_
#define COHORT_DEPLOY_STRATEGY_STRATEGY_TASKS_H_

#include <absl/status/statusor.h>

#include <memory>

#include "common/model/strategies.h"
#include "deploy/strategy/strategy_options.h"

namespace cohort {

// The tasks of a strategy that this process owns, and how a coordinator reaches all of them.
// Without TF_CONFIG they are all tasks (TaskPlan). With TF_CONFIG this process owns the first
// replica, or no task if there are parameter servers.
class StrategyTasks {
 public:
  // The tasks of this process serve when this returns. Errors: those of InProcessCluster, of
  // PlanTasks and of TF_CONFIG; exit 78 if the task of TF_CONFIG is not the one that runs the loop,
  // or there is no directory.
  static absl::StatusOr<std::unique_ptr<StrategyTasks>> Start(const StrategyClass& strategy,
                                                              const StrategyOptions& options);
  virtual ~StrategyTasks() = default;

  // Cluster, checkpoint directory, clock, log, incarnation and security.
  virtual CoordinatorOptions coordinator_options() const = 0;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_STRATEGY_STRATEGY_TASKS_H_
