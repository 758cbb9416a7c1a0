#ifndef COHORT_COMMON_OS_CHILD_PROCESS_H_
#define COHORT_COMMON_OS_CHILD_PROCESS_H_

#include <absl/status/statusor.h>
#include <signal.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cohort {

struct ChildProcessOptions {
  std::vector<std::string> argv;  // argv[0] is the program's path
  std::vector<std::pair<std::string, std::string>> environment;
  bool inherit_environment = true;  // this process's variables too; `environment` replaces them
  std::string directory;            // that it starts in; "" = this process's
  // Become its standard input, output and error; -1 = this process's own.
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  bool own_group = false;      // a process group of its own: Ctrl-C on a terminal does not reach it
  int death_signal = SIGKILL;  // that it gets when the thread that has started it ends
};

// Returns the error of a program that exec could not run, with its errno: NotFound or
// PermissionDenied (exit 71). It names the program and, if that is missing from a build tree, the
// command that builds it.
absl::Status CannotExecute(const std::string& program, int error);

// A program that runs as a child of this process. No signal is blocked in it, and SIGPIPE and
// SIGXFSZ have their default action. One thread at a time.
class ChildProcess {
 public:
  // Returns when the program runs. Errors: NotFound or PermissionDenied (exit 71) if the program
  // cannot be executed, naming it; ResourceExhausted if there is no pipe or no process.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildProcessOptions& options);
  // Kills the child if it has not ended, and waits for its end.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool ended() const { return ended_; }
  // Sends a signal to the child unless it has ended.
  void Signal(int signal) const;
  // Waits for the end and returns waitpid's status.
  int Wait();
  // Returns waitpid's status if the child has ended, or if it was stopped or continued since the
  // last call; nullopt if nothing has happened. Does not wait.
  std::optional<int> Poll();

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  bool ended_ = false;
  int wait_status_ = 0;
};

// The exit code of waitpid's status, as shells count it: 128 + signal if a signal killed the child.
int ExitCodeOfWait(int wait_status);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_CHILD_PROCESS_H_
