#ifndef COHORT_DEPLOY_LAUNCHER_CHILD_H_
#define COHORT_DEPLOY_LAUNCHER_CHILD_H_

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace cohort {

// How one task's process is started; again and again the same way, but for what comes beside argv.
struct ChildSpec {
  std::string task;                       // "worker:1"
  std::vector<std::string> argv;          // argv[0] is the program's path
  std::vector<std::string> first_start;   // added to argv at the first start: --fresh
  std::vector<std::string> later_starts;  // added to argv at each restart: --finished_ok
  std::vector<std::pair<std::string, std::string>> environment;  // beside this process's own
  std::string log_file;      // appended to: stderr, and stdout unless it is shown
  bool show_stdout = false;  // stdout stays this process's own
};

// One life of a child process. It dies with this process, however this one ends (PR_SET_PDEATHSIG),
// and has a process group of its own, so that Ctrl-C on a terminal reaches only the launcher.
class Child {
 public:
  // Errors: NotFound or PermissionDenied where the program cannot be executed, naming it.
  static absl::StatusOr<std::unique_ptr<Child>> Start(const ChildSpec& spec, TimePoint now);

  pid_t pid() const { return pid_; }
  TimePoint started() const { return started_; }
  void Signal(int signal) const;
  // The last `count` lines that this life wrote to its log, indented; "" where it wrote none.
  std::string LastLines(int count) const;

 private:
  Child(pid_t pid, TimePoint started, std::string log_file, int64_t log_offset)
      : pid_(pid), started_(started), log_file_(std::move(log_file)), log_offset_(log_offset) {}
  const pid_t pid_;
  const TimePoint started_;
  const std::string log_file_;
  const int64_t log_offset_;  // where this life's lines begin
};

// "exited with 70", "was killed by signal 9 (Killed)": what waitpid's status means.
std::string DescribeExit(int wait_status);
// The exit code, as shells count it: 128 + signal of a killed one.
int ExitCodeOfWait(int wait_status);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_CHILD_H_
