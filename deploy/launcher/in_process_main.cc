// cohort-in-process: what `cohort local --in_process` and `cohort train` become. It runs a job with
// all of its tasks in this process.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include "chief/chief.h"
#include "chief/chief_options.h"
#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "common/base/status.h"
#include "common/os/process_start.h"
#include "common/os/signals.h"
#include "common/plugin/load_plugins.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "deploy/in_process/attendant.h"
#include "deploy/in_process/in_process_job.h"
#include "deploy/launcher/launcher_options.h"

namespace cohort {
namespace {

// The tasks beside the chief. The destructor ends them at once, workers before servers.
class OtherTasks {
 public:
  ~OtherTasks() {
    while (!tasks_.empty()) tasks_.pop_back();
  }

  absl::Status Start(const std::string& task, const InProcessTaskOptions& options) {
    const bool evaluator = task.starts_with("evaluator:");
    const Role role = task.starts_with("ps:") ? Role::kPs : Role::kWorker;
    auto started =
        evaluator ? StartInProcessEvaluator(options) : StartInProcessServer(role, options);
    if (!started.ok()) return Annotate(started.status(), task);
    tasks_.push_back(*std::move(started));
    if (evaluator) evaluator_ = tasks_.back()->end();
    return absl::OkStatus();
  }

  // Waits until the evaluator has evaluated the last checkpoint, or a signal arrives. Returns the
  // exit code.
  int AwaitEvaluator() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
    while (evaluator_ != nullptr && !evaluator_->exit_code().has_value()) {
      pollfd fd = {evaluator_->fd(), POLLIN, 0};
      poll(&fd, 1, /*timeout_ms=*/100);
      const timespec now = {0, 0};
      if (const int signal = sigtimedwait(&signals, nullptr, &now); signal > 0) {
        return ExitCodeOfSignal(signal);
      }
    }
    return evaluator_ == nullptr ? 0 : *evaluator_->exit_code();
  }

 private:
  std::vector<std::unique_ptr<InProcessTask>> tasks_;
  std::shared_ptr<ExitEvent> evaluator_;  // null: there is none
};

// What the process of this task would get.
InProcessTaskOptions TaskOptions(const TaskCommand& command) {
  InProcessTaskOptions options;
  options.arguments.assign(command.argv.begin() + 1, command.argv.end());
  options.arguments.insert(options.arguments.end(), command.first_start.begin(),
                           command.first_start.end());
  for (const auto& [name, value] : command.environment) {
    if (name == "TF_CONFIG") options.tf_config = value;
  }
  options.log_file = command.log_file;
  options.log_to_stderr = false;
  const char* data_dir = std::getenv("COHORT_DATA_DIR");
  const char* runtime_dir = std::getenv("XDG_RUNTIME_DIR");
  options.data_dir = data_dir == nullptr ? "" : data_dir;
  options.runtime_dir = runtime_dir == nullptr ? "" : runtime_dir;
  return options;
}

absl::StatusOr<Chief::Options> ChiefOptions(const ChiefFlags& flags, const RoleContext& context,
                                            const std::string& data_dir, SignalWaiter* signals) {
  COHORT_ASSIGN_OR_RETURN(Chief::Options options,
                          MakeChiefOptions(flags, context, data_dir.c_str()));
  options.job.launched = ProcessStart();
  options.progress = ProgressLine::OptionsFor(STDOUT_FILENO);
  options.progress_output = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  options.on_outcome = [signals] { signals->Wake(); };
  options.on_done = [signals] { signals->NotifyDone(); };
  return options;
}

// Runs the tasks of a job as objects of this process, with the console output of RunLocal. Returns
// the exit code: the chief's; the evaluator's if that fails after the chief has finished; 128 +
// signal. Blocks signals, and ends the process if its storage hangs. Errors: those of PrepareRun
// and of the tasks' start. `servers`: where the workers find the servers that they call directly;
// null: they use sockets.
absl::StatusOr<int> Run(const LocalOptions& options, const TaskPlan& plan, std::string_view title,
                        std::shared_ptr<LocalServers> servers) {
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<SignalWaiter> signals, SignalWaiter::Start());
  PrepareTransportProcess();
  COHORT_ASSIGN_OR_RETURN(const PreparedRun run, PrepareRun(options, plan));
  PrintStart(title, run.directories);

  // The job file is read before the tasks start. MakeTaskCommands puts the chief last.
  const InProcessTaskOptions chief_task = TaskOptions(run.commands.back());
  ChiefFlags flags;
  COHORT_ASSIGN_OR_RETURN(const RoleContext context,
                          ReadTaskFlags(AddChiefFlags, &flags, Role::kChief, chief_task));
  COHORT_ASSIGN_OR_RETURN(Chief::Options chief_options,
                          ChiefOptions(flags, context, chief_task.data_dir, signals.get()));
  OtherTasks tasks;
  for (size_t i = 0; i + 1 < run.commands.size(); ++i) {
    const TaskCommand& command = run.commands[i];
    InProcessTaskOptions task = TaskOptions(command);
    task.local_servers = servers;
    COHORT_RETURN_IF_ERROR(tasks.Start(command.task, task));
  }
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<Chief> chief,
                          Chief::Start(std::move(chief_options)));
  int code = RunUntilEnd(chief.get(), signals.get(), context.log.get());
  if (code == 0) code = tasks.AwaitEvaluator();
  if (code == 0) PrintDone(run.directories);
  if (code == static_cast<int>(ExitCode::kStopped)) PrintStopped(run.directories);
  if (code == ExitCodeOfSignal(SIGINT) || code == ExitCodeOfSignal(SIGTERM)) {
    PrintLauncherLine(fmt::format(
        "interrupted; to continue, run the same command with --checkpoint_dir {}. What follows the "
        "newest checkpoint is trained again (`cohort ctl RUN stop` takes one before it ends)",
        run.directories.checkpoints));
  }
  return code;
}

absl::StatusOr<int> RunInProcess(const LocalOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const TaskPlan tasks, PlanLocal(options));
  return Run(options, tasks, TitleOf(options, tasks), /*servers=*/nullptr);
}

absl::StatusOr<int> Train(const TrainOptions& options) {
  COHORT_RETURN_IF_ERROR(LoadPlugins(options.run.plugins, /*log=*/nullptr));
  COHORT_ASSIGN_OR_RETURN(const TrainPlan plan, PlanTraining(options));
  return Run(plan.run, plan.tasks, plan.Text(), std::make_shared<LocalServers>(plan.homes));
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  using namespace cohort;
  PrepareProcess("cohort");
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
