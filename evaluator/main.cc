// cohort-evaluator: evaluates the checkpoints of a job as they come. It never dials the cluster.
#include <cstdlib>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "common/base/status.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/plugin/load_plugins.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "evaluator/evaluator.h"
#include "evaluator/evaluator_options.h"

namespace cohort {
namespace {

absl::StatusOr<int> Run(const EvaluatorFlags& flags) {
  COHORT_RETURN_IF_ERROR(CheckEvaluatorFlags(flags));
  ServiceNotifier notifier(ServiceNotifier::FromEnvironment());
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<SignalWaiter> signals, SignalWaiter::Start());
  PrepareTransportProcess();
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          MakeRoleContext(flags.role, Role::kEvaluator, std::getenv("TF_CONFIG")));
  COHORT_RETURN_IF_ERROR(LoadPlugins(context.plugins, flags.once ? nullptr : context.log.get()));
  Evaluator::Options options = MakeEvaluatorOptions(flags, context, std::getenv("COHORT_DATA_DIR"));
  options.notifier = &notifier;
  COHORT_ASSIGN_OR_RETURN(std::unique_ptr<Evaluator> evaluator,
                          Evaluator::Create(std::move(options)));
  if (!flags.once) {  // which is for a terminal
    context.log->Info("started",
                      {{"admin_port", evaluator->admin_port()}, {"threads", context.threads}});
  }
  return RunUntilEnd(evaluator.get(), signals.get(), FromSeconds(flags.poll_s));
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  cohort::PrepareProcess("cohort-evaluator");
  cohort::EvaluatorFlags options;
  cohort::FlagSet flags("cohort-evaluator", "Evaluates the checkpoints of a Cohort job.");
  cohort::AddEvaluatorFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  const absl::StatusOr<int> code = cohort::Run(options);
  return code.ok() ? *code : cohort::ExitWith("cohort-evaluator", code.status());
}
