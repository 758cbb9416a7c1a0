#include "deploy/launcher/local_cluster.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/cluster/free_ports.h"
#include "common/cluster/run_secret.h"
#include "common/cluster/tf_config.h"
#include "common/model/strategies.h"
#include "common/os/directory.h"
#include "common/os/process_start.h"
#include "deploy/launcher/check_job.h"
#include "deploy/launcher/supervisor.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

absl::Status CannotCreate(const std::string& path, std::string_view why) {
  return WithExitCode(FailedPrecondition("the directory {} cannot be created: {}", path, why),
                      ExitCode::kCantCreate);
}

// Returns true if `selector` of a --task_flag ("worker", "worker:1") names this task.
bool Selects(std::string_view selector, Task task) {
  return selector == RoleName(task.role) || selector == task.ToString();
}

absl::Status CheckFlags(const LocalOptions& options) {
  if (options.in_process && options.restart) {
    return UsageError(
        "--restart: the tasks of --in_process end with their process, and nothing "
        "can restart them; omit one of the two flags");
  }
  if (options.transport == "unix" || options.transport == "tcp") return absl::OkStatus();
  return UsageError("--transport: \"{}\" is neither unix nor tcp", options.transport);
}

absl::Status CheckProgram(const std::string& path) {
  if (access(path.c_str(), X_OK) == 0) return absl::OkStatus();
  return WithExitCode(
      NotFound("{} does not exist; cohort starts the daemons that lie beside it (or in --bin_dir)",
               path),
      ExitCode::kOs);
}

absl::Status AddTaskFlags(const LocalOptions& options, const std::vector<Task>& tasks,
                          std::vector<TaskCommand>* commands) {
  for (const std::string& flag : options.task_flags) {
    const size_t equals = flag.find('=');
    bool used = false;
    for (size_t i = 0; equals != std::string::npos && i < tasks.size(); ++i) {
      if (!Selects(std::string_view(flag).substr(0, equals), tasks[i])) continue;
      (*commands)[i].argv.push_back(flag.substr(equals + 1));
      used = true;
    }
    if (!used) {
      return UsageError(
          "--task_flag: \"{}\" should be TASK=FLAG with a task of this cluster, as in "
          "worker:1=--threads=2",
          flag);
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> TaskFlags(Task task, const LocalOptions& options, const TaskPlan& tasks,
                                   const RunDirectories& directories, const std::string& launch) {
  std::vector<std::string> flags;
  for (const std::string& plugin : options.plugins) flags.push_back("--plugin=" + plugin);
  if (!options.tls_dir.empty()) {
    flags.push_back("--tls_dir=" + options.tls_dir);
  }
  flags.push_back("--secret_file=" + directories.secret_file);
  const Role owner = tasks.are_replicas() ? Role::kWorker : Role::kPs;
  if (task.role == owner && options.transport == "tcp") {
    flags.push_back("--unix_socket_dir=none");
  }
  if (task.role == Role::kChief || task.role == Role::kEvaluator) {
    flags.push_back("--checkpoint_dir=" + directories.checkpoints);
    flags.push_back("--log_dir=" + directories.logs);
    flags.push_back("--launch=" + launch);
  }
  if (task.role == Role::kChief) {
    if (!options.strategy.empty()) flags.push_back("--strategy=" + options.strategy);
    flags.push_back(options.job);
  }
  return flags;
}

// Paths of a run are arguments of its tasks and travel in messages, whose text is UTF-8. `given`:
// the flag whose value is the path, or the variable.
absl::Status CheckUtf8(std::string_view given, const std::string& path) {
  if (IsUtf8(path)) return absl::OkStatus();
  return UsageError(
      "{}: the path {} is not UTF-8: give the absolute path of a directory with such a name, or "
      "start cohort in one",
      given, path);
}

}  // namespace

absl::StatusOr<RunDirectories> MakeRunDirectories(const LocalOptions& options) {
  RunDirectories made;
  std::string run = options.run_dir.empty() ? options.log_dir : options.run_dir;
  if (run.empty()) {
    COHORT_ASSIGN_OR_RETURN(run, MakeTemporaryDirectory("cohort-run"));
  }
  std::error_code error;
  const auto absolute = [&error](const std::string& path) {
    return error ? path : fs::absolute(path, error).string();
  };
  run = fs::path(absolute(run)).lexically_normal().string();
  made.tasks = run + "/tasks";
  made.logs = options.log_dir.empty() ? run + "/logs" : absolute(options.log_dir);
  made.checkpoints =
      options.checkpoint_dir.empty() ? run + "/checkpoints" : absolute(options.checkpoint_dir);
  if (error) return CannotCreate(run, error.message());
  COHORT_RETURN_IF_ERROR(CheckUtf8(!options.run_dir.empty()   ? "--run_dir"
                                   : !options.log_dir.empty() ? "--log_dir"
                                                              : "TMPDIR",
                                   run));
  COHORT_RETURN_IF_ERROR(CheckUtf8("--log_dir", made.logs));
  COHORT_RETURN_IF_ERROR(CheckUtf8("--checkpoint_dir", made.checkpoints));
  for (const std::string& path : {made.tasks, made.logs, made.checkpoints}) {
    fs::create_directories(path, error);
    if (error) return CannotCreate(path, error.message());
  }
  COHORT_ASSIGN_OR_RETURN(made.lock, RunLock::Take(run));
  made.secret_file = run + "/secret";
  COHORT_RETURN_IF_ERROR(WriteNewSecret(made.secret_file));
  return made;
}

absl::StatusOr<std::vector<TaskCommand>> MakeTaskCommands(const LocalOptions& options,
                                                          const TaskPlan& tasks,
                                                          const RunDirectories& directories,
                                                          const std::vector<int>& ports) {
  const ClusterSpec cluster = tasks.LocalCluster(ports);
  std::vector<Task> started = cluster.AllTasks();
  if (options.evaluator) started.push_back({Role::kEvaluator, 0});
  started.push_back({Role::kChief, 0});
  const std::string bin = options.bin_dir.empty() ? OwnDirectory() : options.bin_dir;
  const auto since = ProcessStart().time_since_epoch();
  const std::string launched = fmt::format("{}", std::chrono::nanoseconds(since).count());
  std::vector<TaskCommand> commands;
  for (const Task task : started) {
    TaskCommand command;
    command.task = task.ToString();
    command.argv = TaskFlags(task, options, tasks, directories, launched);
    const bool replica = tasks.are_replicas() && task.role == Role::kWorker;
    command.argv.insert(
        command.argv.begin(),
        fmt::format("{}/cohort-{}", bin, replica ? "replica" : RoleName(task.role)));
    command.environment = {{"TF_CONFIG", MakeTfConfig(cluster, task)}};
    if (task.role == Role::kChief) command.environment.emplace_back("COHORT_LAUNCHED_NS", launched);
    command.log_file =
        fmt::format("{}/{}-{}.log", directories.tasks, RoleName(task.role), task.index);
    command.show_stdout = task.role == Role::kChief;
    command.owns_variables = replica && (task.index == 0 || !options.elastic);
    if (task.role == Role::kChief) {
      // A restarted chief must keep what this run has trained. The previous chief may have died
      // after the end of the job or, with --fresh, before it deleted an old job that is finished:
      // then the restarted chief must refuse that job.
      (options.fresh ? command.first_start
                     : command.later_starts) = {options.fresh ? "--fresh" : "--finished_ok"};
    }
    commands.push_back(std::move(command));
  }
  COHORT_RETURN_IF_ERROR(AddTaskFlags(options, started, &commands));
  for (const TaskCommand& command : commands) {
    if (!options.in_process) COHORT_RETURN_IF_ERROR(CheckProgram(command.argv[0]));
  }
  return commands;
}

absl::Status CompleteStrategy(std::string* name) {
  if (name->empty()) return absl::OkStatus();
  const StrategyClass* const strategy = FindStrategy(*name);
  if (strategy == nullptr) {
    return UsageError("--strategy: {}", NoStrategyText(*name));
  }
  *name = std::string(strategy->name);
  if (!strategy->local()) return absl::OkStatus();
  return UsageError("--strategy: {} trains in one process: use `cohort train`", *name);
}

absl::StatusOr<TaskPlan> PlanLocal(const LocalOptions& options) {
  std::string name = options.strategy;
  COHORT_RETURN_IF_ERROR(CompleteStrategy(&name));
  const StrategyClass& strategy =
      name.empty() ? DefaultStrategy(OwnerCalls::kSockets) : *FindStrategy(name);
  if (strategy.calls == OwnerCalls::kReplicas && options.in_process) {
    return UsageError(
        "--in_process: the replicas of strategy {} are processes; `cohort train` "
        "trains replicas in one process. Omit one of the two flags",
        strategy.name);
  }
  COHORT_RETURN_IF_ERROR(CheckBetween("--ps", options.ps, 1, kMostTasks));
  COHORT_RETURN_IF_ERROR(CheckBetween("--workers", options.workers, 1, kMostTasks));
  return PlanTasks(strategy, {}, {.workers = options.workers, .servers = options.ps});
}

std::string OwnDirectory() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

void PrintLauncherLine(std::string_view line) {
  const std::string text =
      fmt::format("{}cohort: {}\n", isatty(STDERR_FILENO) ? "\r\x1b[K" : "", Printable(line));
  std::fwrite(text.data(), 1, text.size(), stderr);
}

std::string TitleOf(const LocalOptions& options, const TaskPlan& tasks) {
  const std::string servers = tasks.are_replicas() ? "" : fmt::format("{} ps, ", tasks.servers());
  return fmt::format("{}{} {}{}{}", servers, tasks.workers,
                     tasks.are_replicas() ? "replica" : "worker", tasks.workers == 1 ? "" : "s",
                     options.evaluator ? ", an evaluator" : "");
}

void PrintStart(std::string_view title, const RunDirectories& directories) {
  PrintLauncherLine(fmt::format("{}; logs of the tasks: {}", title, directories.tasks));
}

void PrintDone(const RunDirectories& directories) {
  PrintLauncherLine(
      fmt::format("done; checkpoints: {}, metrics: {}", directories.checkpoints, directories.logs));
}

void PrintStopped(const RunDirectories& directories) {
  PrintLauncherLine(
      fmt::format("stopped; to continue, run the same command with --checkpoint_dir {}",
                  directories.checkpoints));
}

absl::StatusOr<PreparedRun> PrepareRun(const LocalOptions& options, const TaskPlan& tasks) {
  COHORT_RETURN_IF_ERROR(CheckFlags(options));
  if (access(options.job.c_str(), R_OK) != 0) {
    return NotFound("the job file {} cannot be read: {}", options.job, std::strerror(errno));
  }
  COHORT_ASSIGN_OR_RETURN(const auto ports, ChooseFreePorts(tasks.servers() + tasks.workers));
  PreparedRun run;
  COHORT_ASSIGN_OR_RETURN(run.directories, MakeRunDirectories(options));
  auto commands = MakeTaskCommands(options, tasks, run.directories, ports);
  if (!commands.ok()) {
    std::error_code ignored;
    // A directory that was created only for this run is still empty.
    const bool own = options.run_dir.empty() && options.log_dir.empty();
    if (own) fs::remove_all(fs::path(run.directories.tasks).parent_path(), ignored);
    return commands.status();
  }
  run.commands = *std::move(commands);
  return run;
}

absl::StatusOr<int> Supervise(bool restart, double grace_s, std::vector<TaskCommand> commands) {
  SupervisorOptions supervision;
  supervision.restart = restart;
  supervision.grace = FromSeconds(grace_s);
  supervision.print = PrintLauncherLine;
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<Supervisor> supervisor,
                          Supervisor::Create(std::move(supervision), std::move(commands)));
  return supervisor->Run();
}

absl::StatusOr<int> RunLocal(const LocalOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const TaskPlan tasks, PlanLocal(options));
  COHORT_ASSIGN_OR_RETURN(PreparedRun run, PrepareRun(options, tasks));
  PrintStart(TitleOf(options, tasks), run.directories);
  COHORT_ASSIGN_OR_RETURN(const int exit_code,
                          Supervise(options.restart, options.grace_s, std::move(run.commands)));
  if (exit_code == 0) PrintDone(run.directories);
  if (exit_code == static_cast<int>(ExitCode::kStopped)) PrintStopped(run.directories);
  return exit_code;
}

}  // namespace cohort
