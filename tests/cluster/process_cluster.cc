#include "tests/cluster/process_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/status.h"
#include "tests/cluster/log_tail.h"

namespace cohort {
namespace {

// What the child does between fork and exec: no allocation, no lock.
[[noreturn]] void ExecChild(const std::vector<char*>& argv, const std::vector<char*>& envp,
                            int log_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
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

std::vector<int> FreePorts(int count) {
  std::vector<int> sockets, ports;
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    sockets.push_back(fd);
    ports.push_back(ntohs(address.sin_port));
  }
  for (int fd : sockets) close(fd);
  return ports;
}

absl::StatusOr<std::unique_ptr<MiniCluster>> ProcessCluster::Create(MiniClusterOptions options) {
  const char* build = std::getenv("COHORT_BINARY_DIR");
  if (build == nullptr) return FailedPrecondition("COHORT_BINARY_DIR is not set: run under ctest");
  return std::unique_ptr<MiniCluster>(
      new ProcessCluster(std::move(options), std::string(build) + "/bin"));
}

ProcessCluster::ProcessCluster(MiniClusterOptions options, std::string binary_dir)
    : MiniCluster(std::move(options)), binary_dir_(std::move(binary_dir)) {
  const std::vector<int> ports = FreePorts(options_.workers + options_.servers);
  worker_ports_.assign(ports.begin(), ports.begin() + options_.workers);
  ps_ports_.assign(ports.begin() + options_.workers, ports.end());
}

ProcessCluster::~ProcessCluster() {
  for (auto& [key, process] : processes_) {
    if (process.running) kill(process.pid, SIGKILL);
    Reap(&process, /*block=*/true);
  }
}

std::vector<std::string> ProcessCluster::CommandLine(TaskRole role, int index,
                                                     const std::string& crash_point) const {
  std::vector<std::string> args = {fmt::format("{}/cohort-{}", binary_dir_, TaskRoleName(role))};
  switch (role) {
    case TaskRole::kChief:
      args.insert(args.end(),
                  {job_file(), "--checkpoint_dir", checkpoint_dir(), "--log_dir", log_dir()});
      args.insert(args.end(), options_.chief_flags.begin(), options_.chief_flags.end());
      break;
    case TaskRole::kPs:
      args.insert(args.end(), {"--apply_log", apply_log(index)});
      break;
    case TaskRole::kEvaluator:
      args.insert(args.end(), {"--checkpoint_dir", checkpoint_dir(), "--log_dir", log_dir()});
      break;
    case TaskRole::kWorker:
      break;
  }
  if (!crash_point.empty()) args.insert(args.end(), {"--crash_point", crash_point});
  return args;
}

std::string ProcessCluster::LogFile(TaskRole role, int index) const {
  return fmt::format("{}/{}-{}.log", log_dir(), TaskRoleName(role), index);
}

absl::Status ProcessCluster::Start(TaskRole role, int index, const std::string& crash_point) {
  Process& process = processes_[{role, index}];
  Reap(&process, /*block=*/false);
  if (process.running) return AlreadyExists("{}:{} runs already", TaskRoleName(role), index);
  std::vector<std::string> args = CommandLine(role, index, crash_point);
  std::vector<std::string> env = {
      "TF_CONFIG=" + TfConfigText(role, index, worker_ports_, ps_ports_),
      "COHORT_DATA_DIR=" + options_.data_dir};
  for (const char* name : {"PATH", "HOME", "TSAN_OPTIONS", "ASAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) env.push_back(fmt::format("{}={}", name, value));
  }
  const auto argv = Pointers(&args);
  const auto envp = Pointers(&env);
  const int log_fd =
      open(LogFile(role, index).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_fd < 0) return Unavailable("cannot write {}", LogFile(role, index));
  const pid_t pid = fork();
  if (pid == 0) ExecChild(argv, envp, log_fd);
  close(log_fd);
  if (pid < 0) return Unavailable("fork failed");
  process = {.pid = pid, .running = true};
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

absl::StatusOr<int> ProcessCluster::WaitForExit(TaskRole role, int index,
                                                std::chrono::seconds limit) {
  if (!Eventually(limit, [&] { return !Running(role, index); })) {
    return DeadlineExceeded("{}:{} still runs; its log ends with\n{}", TaskRoleName(role), index,
                            LogTail(role, index, 20));
  }
  return processes_[{role, index}].exit_code;
}

std::string ProcessCluster::LogTail(TaskRole role, int index, int lines) {
  return TailOf(LogFile(role, index), lines);
}

void ProcessCluster::Reap(Process* process, bool block) {
  if (!process->running) return;
  int status = 0;
  if (waitpid(process->pid, &status, block ? 0 : WNOHANG) != process->pid) return;
  process->running = false;
  process->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cohort
