// cohort-worker: a worker. TF_CONFIG defines its task and its cluster.
#include "common/base/status.h"
#include "common/plugin/load_plugins.h"
#include "worker/worker_options.h"
#include "worker/worker_server.h"

int main(int argc, char** argv) {
  using namespace cohort;
  WorkerFlags flags;
  return RunProgram(
      argc, argv,
      {.name = "cohort-worker",
       .help = "A worker of Cohort: runs the steps of a job.",
       .role = Role::kWorker,
       .title = "worker"},
      [&](FlagSet* set) { AddWorkerFlags(set, &flags); }, flags,
      [&](const RoleContext& context,
          const TaskEnvironment& environment) -> absl::StatusOr<std::unique_ptr<ServingTask>> {
        COHORT_RETURN_IF_ERROR(LoadDataPlugins(context.plugins, context.log.get()));
        return WorkerServer::Start(MakeServerOptions(flags, context, environment));
      });
}
