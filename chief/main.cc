// cohort-chief: owns a job. TF_CONFIG names its workers and parameter servers.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "chief/chief.h"
#include "chief/chief_options.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "common/base/status.h"
#include "common/os/process_start.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/plugin/load_plugins.h"
#include "common/rpc/stream/grpc_tuning.h"

namespace cohort {
namespace {

absl::StatusOr<int> Run(const ChiefFlags& flags) {
  ServiceNotifier notifier(ServiceNotifier::FromEnvironment());
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SignalWaiter> signals, SignalWaiter::Start());
  PrepareTransportProcess();
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          MakeRoleContext(flags.role, Role::kChief, std::getenv("TF_CONFIG")));
  COHORT_RETURN_IF_ERROR(LoadPlugins(context.plugins, context.log.get()));
  COHORT_ASSIGN_OR_RETURN(Chief::Options options,
                          MakeChiefOptions(flags, context, std::getenv("COHORT_DATA_DIR")));
  options.job.launched = LaunchTime(std::getenv("COHORT_LAUNCHED_NS"));
  options.progress = ProgressLine::OptionsFor(STDOUT_FILENO);
  options.progress_output = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  options.on_outcome = [&signals] { signals->Wake(); };
  options.on_done = [&signals] { signals->NotifyDone(); };
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<Chief> chief, Chief::Start(std::move(options)));
  context.log->Info("started", {{"admin_port", chief->admin_port()},
                                {"threads", context.threads},
                                {"incarnation", fmt::format("{:016x}", context.incarnation)}});
  return RunUntilEnd(chief.get(), signals.get(), context.log.get(), {}, &notifier);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::PrepareProcess("cohort-chief");
  cohort::ChiefFlags options;
  cohort::FlagSet flags("cohort-chief", "The chief of a Cohort cluster: trains a job.");
  cohort::AddChiefFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  const absl::StatusOr<int> code = cohort::Run(options);
  return code.ok() ? *code : cohort::ExitWith("cohort-chief", code.status());
}
