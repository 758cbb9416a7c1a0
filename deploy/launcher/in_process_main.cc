// cohort-in-process: what `cohort local --in_process` and `cohort train` become. It runs a job with
// all of its tasks in this process.
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/plugin/load_plugins.h"
#include "deploy/launcher/in_process_run.h"
#include "deploy/launcher/launcher_options.h"

namespace cohort {
namespace {

absl::StatusOr<int> Train(const TrainOptions& options) {
  COHORT_RETURN_IF_ERROR(LoadPlugins(options.run.plugins, /*log=*/nullptr));
  COHORT_ASSIGN_OR_RETURN(const TrainPlan plan, PlanTraining(options));
  return TrainInProcess(plan);
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  using namespace cohort;
  InstallTerminateHandler("cohort");
  LocalOptions local;
  TrainOptions train;
  FlagSet flags("cohort-in-process", "Runs a job with all of its tasks in one process.");
  AddLocalFlags(flags.AddCommand("local", "a chief, workers and parameter servers"), &local);
  AddTrainFlags(flags.AddCommand("train", "one strategy on the devices of this machine"), &train);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  local.in_process = true;
  const absl::StatusOr<int> code = flags.command() == "train" ? Train(train) : RunInProcess(local);
  return code.ok() ? *code : ExitWith("cohort", code.status());
}
