#include "deploy/launcher/evaluate_checkpoint.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/os/signals.h"
#include "deploy/launcher/child.h"
#include "deploy/launcher/inspect_checkpoint.h"
#include "deploy/launcher/run_task.h"

namespace cohort {
namespace {

// Runs a program on this terminal and waits for it. Signals of the terminal reach it directly.
int RunAndWait(const std::vector<std::string>& argv) {
  ResetSigchld();
  const auto on_interrupt = std::signal(SIGINT, SIG_IGN);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    std::signal(SIGINT, on_interrupt);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    _exit(getppid() == parent ? Exec(argv) : 1);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) {
    return ExitWith("cohort",
                    ResourceExhausted("no process for {}: {}", argv[0], std::strerror(errno)));
  }
  return ExitCodeOfWait(status);
}

}  // namespace

int EvaluateCheckpoint(const EvaluateOptions& options) {
  const absl::Status threads = CheckBetween("--threads", options.threads, 0, kMostThreads);
  if (!threads.ok()) return ExitWith("cohort", threads);
  std::string refused;
  const auto checkpoint = FindCheckpoint(options.checkpoint, &refused);
  std::fputs(Printable(refused).c_str(), stderr);
  if (!checkpoint.ok()) return ExitWith("cohort", checkpoint.status());
  std::vector<std::string> argv = {options.bin_dir + "/cohort-evaluator",
                                   "--checkpoint_dir=" + *checkpoint, "--once"};
  if (!options.log_dir.empty()) argv.push_back("--log_dir=" + options.log_dir);
  if (options.threads > 0) argv.push_back(fmt::format("--threads={}", options.threads));
  return RunAndWait(argv);
}

}  // namespace cohort
