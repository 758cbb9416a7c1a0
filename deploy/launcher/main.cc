// cohort: starts clusters, and inspects jobs and checkpoints.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/printable.h"
#include "deploy/launcher/check_job.h"
#include "deploy/launcher/evaluate_checkpoint.h"
#include "deploy/launcher/inspect_checkpoint.h"
#include "deploy/launcher/launcher_options.h"
#include "deploy/launcher/local_cluster.h"
#include "deploy/launcher/run_task.h"

namespace cohort {
namespace {

int Print(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return ExitWith("cohort", text.status());
  return ExitWith("cohort", WriteToStdout(*text));
}

int RunTask(const RunFlags& run) {
  const auto daemon = run.DaemonArguments(std::getenv("TF_CONFIG"), OwnDirectory());
  return daemon.ok() ? Exec(*daemon) : ExitWith("cohort", daemon.status());
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  using namespace cohort;
  InstallTerminateHandler("cohort");
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit makes the write fail
  FlagSet flags("cohort", "Starts clusters, and inspects jobs and checkpoints.");
  LauncherOptions options;
  AddLauncherCommands(&flags, &options);
  const RunFlags run(flags.AddCommand("run", "become the daemon of the task named in TF_CONFIG"));
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  if (const char* data_dir = std::getenv("COHORT_DATA_DIR")) options.check.data_dir = data_dir;
  options.evaluate.bin_dir = OwnDirectory();

  const std::string command = flags.command();
  if (command == "local") {
    const absl::Status checked =
        options.local.evaluator ? CheckForEvaluator(options.local.job) : absl::OkStatus();
    const std::string ignored = IgnoredDirectories(options.local);
    if (!ignored.empty()) fmt::print(stderr, "cohort: {}", Printable(ignored));
    return checked.ok() ? RunLocal(options.local) : ExitWith("cohort", checked);
  }
  if (command == "check") return Print(CheckJob(options.check));
  if (command == "inspect") return Print(InspectCheckpoint(options.inspect));
  if (command == "evaluate") return EvaluateCheckpoint(options.evaluate);
  return RunTask(run);
}
