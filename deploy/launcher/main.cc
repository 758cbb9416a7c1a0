// cohort: starts clusters, controls jobs, and inspects jobs and checkpoints.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/graph/op_registry.h"
#include "common/model/job_file.h"
#include "common/model/reference.h"
#include "common/model/strategies.h"
#include "common/model/traced_model.h"
#include "common/plugin/load_plugins.h"
#include "deploy/launcher/check_job.h"
#include "deploy/launcher/control_job.h"
#include "deploy/launcher/evaluate_checkpoint.h"
#include "deploy/launcher/export_checkpoint.h"
#include "deploy/launcher/generate_data.h"
#include "deploy/launcher/inspect_checkpoint.h"
#include "deploy/launcher/launcher_options.h"
#include "deploy/launcher/local_cluster.h"
#include "deploy/launcher/report_run.h"
#include "deploy/launcher/run_task.h"

namespace cohort {
namespace {

absl::StatusOr<int> Print(const absl::StatusOr<std::string>& text) {
  COHORT_RETURN_IF_ERROR(text.status());
  COHORT_RETURN_IF_ERROR(WriteToStdout(*text));
  return 0;
}

// A program of its own, because the launcher starts faster without the libraries of the daemons.
// `arguments`: the command line from the name of the command on.
absl::Status RunInOneProcess(const std::string& bin_dir, std::vector<std::string> arguments) {
  const std::string bin = bin_dir.empty() ? OwnDirectory() : bin_dir;
  arguments.insert(arguments.begin(), bin + "/cohort-in-process");
  return Exec(arguments);
}

// `arguments`: the command line from the word "local" on.
absl::StatusOr<int> RunLocalCluster(LocalOptions options, std::vector<std::string> arguments) {
  COHORT_RETURN_IF_ERROR(LoadPlugins(options.plugins, /*log=*/nullptr));
  COHORT_RETURN_IF_ERROR(CompleteStrategy(&options.strategy));
  // An error of the job is the chief's to report.
  if (const auto job = ReadJobFile(options.job, options.strategy); job.ok()) {
    const v1::StrategySpec& strategy = job->spec.strategy();
    const StrategyClass& found = *FindStrategy(strategy.name());
    if (found.calls == OwnerCalls::kReplicas) options.strategy = strategy.name();
    options.elastic = strategy.elastic();
    const bool given = std::ranges::any_of(options.task_flags, [](const std::string& flag) {
      return flag.find("--stall_timeout_s") != std::string::npos;
    });
    if (!given && job->lines.keys.contains("strategy.closure_timeout_s")) {
      options.task_flags.insert(
          options.task_flags.begin(),
          fmt::format("worker=--stall_timeout_s={}", strategy.closure_timeout_s()));
    }
  }
  if (options.evaluator) COHORT_RETURN_IF_ERROR(CheckForEvaluator(options.job));
  const std::string ignored = IgnoredDirectories(options);
  if (!ignored.empty()) fmt::print(stderr, "cohort: {}", Printable(ignored));
  if (!options.in_process) return RunLocal(options);
  return RunInOneProcess(options.bin_dir, std::move(arguments));
}

// `arguments`: the command line from the word "train" on.
absl::Status RunTraining(const TrainOptions& options, std::vector<std::string> arguments) {
  COHORT_RETURN_IF_ERROR(LoadPlugins(options.run.plugins, /*log=*/nullptr));
  COHORT_RETURN_IF_ERROR(PlanTraining(options).status());
  return RunInOneProcess("", std::move(arguments));
}

// `arguments`: the command line after the name of a command that is a program of its own, for the
// same reason.
absl::Status RunProgram(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), OwnDirectory() + "/" + program);
  return Exec(arguments);
}

// The tasks of a cluster without servers are replicas, unless the job names another strategy.
absl::Status CheckGuess(const RunFlags& run) {
  if (run.job().empty() || !run.GuessesReplicas(std::getenv("TF_CONFIG"))) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(LoadPlugins(run.plugins(), /*log=*/nullptr));
  const std::string replicas(DefaultStrategy(OwnerCalls::kReplicas).name);
  COHORT_ASSIGN_OR_RETURN(const JobFile of_replicas, ReadJobFile(run.job(), replicas));
  if (!of_replicas.lines.keys.contains("strategy.name")) return absl::OkStatus();
  COHORT_ASSIGN_OR_RETURN(const JobFile job, ReadJobFile(run.job()));
  const std::string& name = job.spec.strategy().name();
  if (FindStrategy(name)->calls == OwnerCalls::kReplicas) return absl::OkStatus();
  return WithExitCode(
      InvalidArgument(
          "{}: strategy {} does not fit TF_CONFIG, which has no ps: add them, or choose "
          "strategy {}",
          job.lines.Where("strategy.name"), name, replicas),
      ExitCode::kConfig);
}

absl::StatusOr<int> RunTask(RunFlags* run) {
  COHORT_RETURN_IF_ERROR(CompleteStrategy(run->strategy()));
  COHORT_RETURN_IF_ERROR(CheckGuess(*run));
  COHORT_ASSIGN_OR_RETURN(std::vector<TaskCommand> daemons,
                          run->Commands(std::getenv("TF_CONFIG"), OwnDirectory()));
  if (daemons.size() > 1) return Supervise(/*restart=*/true, /*grace_s=*/30, std::move(daemons));
  const TaskCommand& daemon = daemons.front();
  for (const auto& [name, value] : daemon.environment) setenv(name.c_str(), value.c_str(), 1);
  return Exec(daemon.argv);
}

// `argv`: of the process, up to its end.
absl::StatusOr<int> Run(const std::string& command, const LauncherOptions& options, RunFlags* run,
                        std::span<char*> argv) {
  const std::vector<std::string> from_command(argv.begin() + 1, argv.end());
  const std::vector<std::string> after_command(from_command.begin() + 1, from_command.end());
  if (command == "train") return RunTraining(options.train, from_command);
  if (command == "local") return RunLocalCluster(options.local, from_command);
  if (command == "run") return RunTask(run);
  if (command == "profile") return RunProgram("cohort-profile", after_command);
  if (command == "predict") return RunProgram("cohort-predict", after_command);
  if (command == "doctor") return RunProgram("cohort-doctor", after_command);
  if (command == "certs") return Print(MakeCertificates(options.certificates));
  if (command == "tf-config") {
    return Print(
        MakeTfConfigs(options.tf_config, [](const char* name) { return std::getenv(name); }));
  }
  if (command == "ctl") return Print(ControlJob(options.control));
  if (command == "report") return Print(ReportRun(options.report));
  if (command == "generate") return Print(GenerateData(options.generate));
  if (command == "compare") return Print(CompareRuns(options.compare));
  COHORT_RETURN_IF_ERROR(LoadPlugins(options.plugins, /*log=*/nullptr));
  if (command == "check") {
    COHORT_ASSIGN_OR_RETURN(const CheckedJob checked, CheckJob(options.check));
    COHORT_RETURN_IF_ERROR(Print(checked.text).status());
    COHORT_RETURN_IF_ERROR(checked.Outcome(options.check.strict));
    return 0;
  }
  if (command == "inspect") {
    return Print(options.json ? InspectCheckpointJson(options.inspect)
                              : InspectCheckpoint(options.inspect));
  }
  if (command == "export") {
    if (options.export_checkpoint.changed_since >= 0) {
      return Print(ExportChanges(options.export_checkpoint));
    }
    if (IsPythonFormat(options.export_checkpoint.format)) {
      return ExportByPython(OwnDirectory(), from_command);
    }
    return Print(ExportCheckpoint(options.export_checkpoint));
  }
  if (command == "evaluate") return EvaluateCheckpoint(options.evaluate);
  return Print(options.ops    ? OpReference()
               : options.json ? ClassReferenceJson()
                              : ClassReference());
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  using namespace cohort;
  PrepareProcess("cohort");
  std::signal(SIGXFSZ, SIG_IGN);  // a file at its size limit makes the write fail
  FlagSet flags("cohort", "Starts clusters, controls jobs, and inspects jobs and checkpoints.");
  LauncherOptions options;
  AddLauncherCommands(&flags, &options);
  RunFlags run(flags.AddCommand("run", "become the daemon of the task named in TF_CONFIG"));
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  if (const char* data_dir = std::getenv("COHORT_DATA_DIR")) options.check.data_dir = data_dir;
  options.evaluate.bin_dir = OwnDirectory();
  const absl::StatusOr<int> code =
      Run(flags.command(), options, &run, {argv, static_cast<size_t>(argc)});
  return code.ok() ? *code : ExitWith("cohort", code.status());
}
