// cohort-worker: a worker. TF_CONFIG defines its task and its cluster.
#include <cstdlib>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/plugin/load_plugins.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "worker/worker_options.h"
#include "worker/worker_server.h"

namespace cohort {
namespace {

absl::StatusOr<int> Run(const WorkerFlags& flags) {
  ServiceNotifier notifier(ServiceNotifier::FromEnvironment());
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SignalWaiter> signals, SignalWaiter::Start());
  PrepareTransportProcess();
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          MakeRoleContext(flags.role, Role::kWorker, std::getenv("TF_CONFIG")));
  COHORT_RETURN_IF_ERROR(LoadDataPlugins(context.plugins, context.log.get()));
  WorkerServer::Options options = MakeServerOptions(flags, context, std::getenv("COHORT_DATA_DIR"));
  options.on_done = [&signals] { signals->NotifyDone(); };
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<WorkerServer> server,
                          WorkerServer::Start(std::move(options)));
  context.log->Info("listening", {{"port", server->port()},
                                  {"admin_port", server->admin_port()},
                                  {"threads", context.threads},
                                  {"incarnation", fmt::format("{:016x}", context.incarnation)}});
  const auto grace = std::chrono::milliseconds(static_cast<int64_t>(flags.drain_timeout_s * 1000));
  // A tick is also the longest time that a result may wait while a long step runs.
  return RunUntilEnd(server.get(), signals.get(), context.log.get(),
                     {.program = "cohort-worker",
                      .role = "worker",
                      .grace_after_signal = grace,
                      .notifier = &notifier});
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::InstallTerminateHandler("cohort-worker");
  cohort::WorkerFlags options;
  cohort::FlagSet flags("cohort-worker", "A worker of Cohort: runs the steps of a job.");
  cohort::AddWorkerFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  const absl::StatusOr<int> code = cohort::Run(options);
  return code.ok() ? *code : cohort::ExitWith("cohort-worker", code.status());
}
