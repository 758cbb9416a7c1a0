#include "tests/cluster/process_cluster.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

// What the child does between fork and exec: no allocation, no lock.
[[noreturn]] void ExecChild(const std::vector<char*>& argv, const std::vector<char*>& envp,
                            int log_fd, const char* directory) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (chdir(directory) != 0) _exit(126);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  execve(argv[0], argv.data(), envp.data());
  _exit(127);
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MiniCluster>> ProcessCluster::Create(MiniClusterOptions options) {
  const char* build = std::getenv("COHORT_BINARY_DIR");
  if (build == nullptr) return FailedPrecondition("COHORT_BINARY_DIR is not set: run under ctest");
  return std::unique_ptr<MiniCluster>(
      new ProcessCluster(std::move(options), std::string(build) + "/bin"));
}

ProcessCluster::ProcessCluster(MiniClusterOptions options, std::string binary_dir)
    : MiniCluster(std::move(options)), binary_dir_(std::move(binary_dir)) {}

ProcessCluster::~ProcessCluster() {
  for (auto& [key, process] : processes_) {
    if (process.running) kill(process.pid, SIGKILL);
  }
  for (auto& [key, process] : processes_) {
    Reap(&process, /*block=*/true);
  }
}

absl::Status ProcessCluster::Start(TaskRole role, int index, const TaskFlags& flags) {
  Process& process = processes_[{role, index}];
  Reap(&process, /*block=*/false);
  if (process.running) return AlreadyExists("{}:{} runs already", TaskRoleName(role), index);
  std::vector<std::string> args = Arguments(role, index, flags);
  args.insert(args.begin(), fmt::format("{}/cohort-{}", binary_dir_, TaskRoleName(role)));
  std::vector<std::string> env = {"TF_CONFIG=" + TfConfig(role, index),
                                  "COHORT_DATA_DIR=" + options_.data_dir,
                                  "XDG_RUNTIME_DIR=" + runtime_dir()};
  for (const char* name : {"PATH", "HOME", "TSAN_OPTIONS", "ASAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) env.push_back(fmt::format("{}={}", name, value));
  }
  const auto argv = Pointers(&args);
  const auto envp = Pointers(&env);
  BeginLife(role, index);
  const UniqueFd log(
      open(LogFile(role, index).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.ok()) return Unavailable("cannot write {}", LogFile(role, index));
  const auto directory = options_.working_directory.find(role);
  const std::string start_in =
      directory == options_.working_directory.end() ? "." : directory->second;
  const pid_t pid = fork();
  if (pid == 0) ExecChild(argv, envp, log.get(), start_in.c_str());
  if (pid < 0) return Unavailable("fork failed");
  process = {.pid = pid,
             .pid_fd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))),
             .running = true};
  return absl::OkStatus();
}

absl::Status ProcessCluster::Signal(TaskRole role, int index, int signal) {
  Process& process = processes_[{role, index}];
  Reap(&process, /*block=*/false);
  if (!process.running) return FailedPrecondition("{}:{} does not run", TaskRoleName(role), index);
  kill(process.pid, signal);
  return absl::OkStatus();
}

absl::Status ProcessCluster::Kill(TaskRole role, int index) {
  COHORT_RETURN_IF_ERROR(Signal(role, index, SIGKILL));
  Reap(&processes_[{role, index}], /*block=*/true);
  return absl::OkStatus();
}

bool ProcessCluster::Running(TaskRole role, int index) {
  const auto it = processes_.find({role, index});
  if (it == processes_.end()) return false;
  Reap(&it->second, /*block=*/false);
  return it->second.running;
}

int ProcessCluster::EndFd(TaskRole role, int index) {
  const auto it = processes_.find({role, index});
  return it == processes_.end() ? -1 : it->second.pid_fd.get();
}

int ProcessCluster::ExitCode(TaskRole role, int index) {
  Process& process = processes_[{role, index}];
  Reap(&process, /*block=*/true);
  return process.exit_code;
}

void ProcessCluster::Reap(Process* process, bool block) {
  if (!process->running) return;
  int status = 0;
  if (waitpid(process->pid, &status, block ? 0 : WNOHANG) != process->pid) return;
  process->running = false;
  process->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cohort
