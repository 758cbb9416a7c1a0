// cohort-replica: a task that trains and owns a part of the variables. `cohort run` starts it.
#include <cstdlib>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/plugin/load_plugins.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "deploy/replica/replica.h"

namespace cohort {
namespace {

absl::StatusOr<int> Run(const ReplicaFlags& flags) {
  ServiceNotifier notifier(ServiceNotifier::FromEnvironment());
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SignalWaiter> signals, SignalWaiter::Start());
  PrepareTransportProcess();
  const WorkerFlags& worker = flags.worker;
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          MakeRoleContext(worker.role, Role::kWorker, std::getenv("TF_CONFIG")));
  COHORT_RETURN_IF_ERROR(LoadDataPlugins(context.plugins, context.log.get()));
  COHORT_ASSIGN_OR_RETURN(
      std::unique_ptr<Replica> replica,
      Replica::Start(flags, context, std::getenv("COHORT_DATA_DIR"), std::getenv("XDG_RUNTIME_DIR"),
                     [&signals] { signals->NotifyDone(); }));
  context.log->Info("listening", {{"port", replica->port()},
                                  {"admin_port", replica->admin_port()},
                                  {"threads", context.threads},
                                  {"incarnation", fmt::format("{:016x}", context.incarnation)}});
  const auto grace =
      std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(worker.drain_timeout_s));
  return RunUntilEnd(replica.get(), signals.get(), context.log.get(),
                     {.program = "cohort-replica",
                      .role = "replica",
                      .grace_after_signal = grace,
                      .grace_at_end = grace,
                      .notifier = &notifier});
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::InstallTerminateHandler("cohort-replica");
  cohort::ReplicaFlags options;
  cohort::FlagSet flags("cohort-replica",
                        "A replica of Cohort: runs the steps of a job and owns a part of its "
                        "variables.");
  cohort::AddReplicaFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  const absl::StatusOr<int> code = cohort::Run(options);
  return code.ok() ? *code : cohort::ExitWith("cohort-replica", code.status());
}
