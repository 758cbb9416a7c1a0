// cohort-replica: a task that trains and owns a part of the variables. `cohort run` starts it.
#include "common/base/status.h"
#include "common/plugin/load_plugins.h"
#include "deploy/replica/replica.h"

int main(int argc, char** argv) {
  using namespace cohort;
  ReplicaFlags flags;
  return RunProgram(
      argc, argv,
      {.name = "cohort-replica",
       .help = "A replica of Cohort: runs the steps of a job and owns a part of its variables.",
       .role = Role::kWorker,
       .title = "replica",
       .drains_at_end = true},
      [&](FlagSet* set) { AddReplicaFlags(set, &flags); }, flags,
      [&](const RoleContext& context,
          const TaskEnvironment& environment) -> absl::StatusOr<std::unique_ptr<ServingTask>> {
        COHORT_RETURN_IF_ERROR(LoadDataPlugins(context.plugins, context.log.get()));
        return Replica::Start(flags, context, environment);
      });
}
