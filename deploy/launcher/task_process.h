#ifndef COHORT_DEPLOY_LAUNCHER_TASK_PROCESS_H_
#define COHORT_DEPLOY_LAUNCHER_TASK_PROCESS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/os/child_process.h"

namespace cohort {

// The command that starts the processes of one task.
struct TaskCommand {
  std::string task;                       // "worker:1"
  std::vector<std::string> argv;          // argv[0] is the program's path
  std::vector<std::string> first_start;   // added to argv at the first start: --fresh
  std::vector<std::string> later_starts;  // added to argv at each restart: --finished_ok
  std::vector<std::pair<std::string, std::string>> environment;  // added to this process's own
  std::string log_file;         // appended to: stderr, and stdout unless it is shown; "": neither
  bool show_stdout = false;     // the task inherits stdout
  bool owns_variables = false;  // a replica: the job cannot continue without it
};

// One process of a task. It dies with the launcher, in whatever way the launcher ends. It has its
// own process group, so Ctrl-C on a terminal reaches only the launcher.
class TaskProcess {
 public:
  // Errors: FailedPrecondition (exit 73) if its log cannot be written; ChildProcess::Start's.
  static absl::StatusOr<std::unique_ptr<TaskProcess>> Start(const TaskCommand& command,
                                                            bool restart, TimePoint now);

  ChildProcess* child() { return child_.get(); }
  TimePoint started() const { return started_; }
  // Returns how this process ended, with the last lines of its log: "worker:1 exited with 70 after
  // 3.2 s; the last lines of LOG: ...".
  std::string DescribeEnd(int wait_status, TimePoint now) const;

 private:
  TaskProcess(const TaskCommand& command, TimePoint now) : command_(command), started_(now) {}
  std::string LastLogLines() const;

  const TaskCommand& command_;
  const TimePoint started_;
  int64_t log_offset_ = 0;  // offset of the first byte that this process writes
  std::unique_ptr<ChildProcess> child_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_TASK_PROCESS_H_
