// cohort-in-process: what `cohort local --in_process` becomes. It runs a job with all of its tasks in
// this process.
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "deploy/launcher/in_process_run.h"
#include "deploy/launcher/launcher_options.h"

int main(int argc, char** argv) {
  using namespace cohort;
  InstallTerminateHandler("cohort");
  LocalOptions options;
  FlagSet flags("cohort-in-process", "Runs a job with all of its tasks in one process.");
  AddLocalFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  options.in_process = true;
  const absl::StatusOr<int> code = RunInProcess(options);
  return code.ok() ? *code : ExitWith("cohort", code.status());
}
