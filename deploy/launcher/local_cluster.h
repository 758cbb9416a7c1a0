#ifndef COHORT_DEPLOY_LAUNCHER_LOCAL_CLUSTER_H_
#define COHORT_DEPLOY_LAUNCHER_LOCAL_CLUSTER_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/task_plan.h"
#include "deploy/launcher/run_lock.h"
#include "deploy/launcher/task_process.h"

namespace cohort {

// The flags of `cohort local`.
struct LocalOptions {
  std::string strategy;  // one of several processes; "": the default
  bool elastic = false;  // the job continues without a lost replica
  int ps = 1;
  int workers = 1;
  bool evaluator = false;
  bool restart = false;
  bool in_process = false;  // all tasks as objects of one process
  bool fresh = false;
  std::string transport = "unix";    // how workers reach a ps: "unix" (shared memory too) or "tcp"
  std::string checkpoint_dir;        // "": <run_dir>/checkpoints
  std::string log_dir;               // metrics and TensorBoard files; "": <run_dir>/logs
  std::string run_dir;               // logs of the tasks; "": log_dir, or a new one below /tmp
  std::string bin_dir;               // where the daemons are; "": beside the launcher
  std::string tls_dir;               // what `cohort certs` has made; "": plaintext
  std::vector<std::string> plugins;  // for all tasks
  std::vector<std::string> task_flags;  // "worker:1=--threads=2", "ps=--log_level=error"
  double grace_s = 10;
  std::string job;  // path
};

// The existing directories of a run.
struct RunDirectories {
  std::string tasks;  // <task>.log
  std::string checkpoints;
  std::string logs;
  std::string secret_file;  // a new secret for the tasks of this run
  std::unique_ptr<RunLock> lock;
};

// Creates the missing directories, and locks the run's directory. Errors: exit 73, also if another
// launcher runs there.
absl::StatusOr<RunDirectories> MakeRunDirectories(const LocalOptions& options);

// Returns one command per task, the chief last, each with its TF_CONFIG. Errors: InvalidArgument
// (exit 64) for a wrong --task_flag; NotFound (exit 71) if a daemon's binary is not in bin_dir and
// the tasks are processes.
absl::StatusOr<std::vector<TaskCommand>> MakeTaskCommands(const LocalOptions& options,
                                                          const TaskPlan& tasks,
                                                          const RunDirectories& directories,
                                                          const std::vector<int>& ports);

// A run that is ready to start.
struct PreparedRun {
  RunDirectories directories;
  std::vector<TaskCommand> commands;
};

// Checks the options, creates the directories and makes the commands. Errors: those of
// MakeRunDirectories and MakeTaskCommands; exit 64 for wrong options; NotFound for the job file.
absl::StatusOr<PreparedRun> PrepareRun(const LocalOptions& options, const TaskPlan& tasks);

// Replaces a strategy's name of TensorFlow by ours. Errors: exit 64 for an unknown one, and for one
// that has a single process.
absl::Status CompleteStrategy(std::string* name);
// The tasks of `cohort local`. Errors: those of CompleteStrategy; exit 64 for numbers of tasks out
// of range, and for replicas in one process.
absl::StatusOr<TaskPlan> PlanLocal(const LocalOptions& options);

// Returns the directory of this program.
std::string OwnDirectory();

// Prints one line of the launcher to stderr. Erases an unfinished progress line on a terminal.
void PrintLauncherLine(std::string_view line);
// "2 ps, 3 workers, an evaluator".
std::string TitleOf(const LocalOptions& options, const TaskPlan& tasks);
// Print where the logs of the tasks are, and, after a run without an error, its results.
// `title`: the tasks of the run.
void PrintStart(std::string_view title, const RunDirectories& directories);
void PrintDone(const RunDirectories& directories);
// Prints how a run that `cohort ctl` has stopped is continued.
void PrintStopped(const RunDirectories& directories);

// Runs processes until the chief among them has ended. Returns the exit code, as Supervisor::Run.
absl::StatusOr<int> Supervise(bool restart, double grace_s, std::vector<TaskCommand> commands);

// Runs `cohort local` with one process per task, and returns the exit code.
absl::StatusOr<int> RunLocal(const LocalOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_LOCAL_CLUSTER_H_
