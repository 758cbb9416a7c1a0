// cohort-ps: a parameter server. TF_CONFIG says which task of which cluster it is.
#include <cstdlib>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/plugin/plugin_file.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"

namespace cohort {
namespace {

absl::StatusOr<int> Run(const PsFlags& flags) {
  ServiceNotifier notifier(ServiceNotifier::FromEnvironment());
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SignalWaiter> signals, SignalWaiter::Start());
  PrepareTransportProcess();
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          MakeRoleContext(flags.role, Role::kPs, std::getenv("TF_CONFIG")));
  // A server uses no classes of plugins.
  COHORT_RETURN_IF_ERROR(CheckPluginFiles(context.plugins));
  ParameterServer::Options options =
      MakeServerOptions(flags, context, std::getenv("XDG_RUNTIME_DIR"));
  const std::string unix_socket = options.unix_socket;
  options.on_done = [&signals] { signals->NotifyDone(); };
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<ParameterServer> server,
                          ParameterServer::Start(std::move(options)));
  context.log->Info("listening", {{"port", server->port()},
                                  {"unix_socket", unix_socket},
                                  {"admin_port", server->admin_port()},
                                  {"threads", context.threads},
                                  {"incarnation", fmt::format("{:016x}", context.incarnation)}});
  // The process writes running snapshots before it ends.
  const auto grace =
      std::chrono::duration_cast<std::chrono::milliseconds>(FromSeconds(flags.drain_timeout_s));
  return RunUntilEnd(server.get(), signals.get(), context.log.get(),
                     {.program = "cohort-ps",
                      .role = "parameter server",
                      .grace_after_signal = grace,
                      .grace_at_end = grace,
                      .notifier = &notifier});
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::InstallTerminateHandler("cohort-ps");
  cohort::PsFlags options;
  cohort::FlagSet flags("cohort-ps", "A parameter server of Cohort.");
  cohort::AddPsFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  const absl::StatusOr<int> code = cohort::Run(options);
  return code.ok() ? *code : cohort::ExitWith("cohort-ps", code.status());
}
