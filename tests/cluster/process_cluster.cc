#include "tests/cluster/process_cluster.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "common/base/status.h"
#include "common/os/child_process.h"

namespace cohort {

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
    if (process.child != nullptr) process.child->Signal(SIGKILL);
  }
}

absl::Status ProcessCluster::Start(TaskRole role, int index, const TaskFlags& flags) {
  Process& process = processes_[{role, index}];
  if (IsAlive(process)) return AlreadyExists("{}:{} runs already", TaskRoleName(role), index);
  const std::string& other_dir = program_dirs_[{role, index}];
  ChildProcessOptions options;
  options.argv = Arguments(role, index, flags);
  options.argv.insert(
      options.argv.begin(),
      fmt::format("{}/cohort-{}", other_dir.empty() ? binary_dir_ : other_dir,
                  role == TaskRole::kWorker && options_.replicas ? "replica" : TaskRoleName(role)));
  options.inherit_environment = false;
  options.environment = {{"TF_CONFIG", TfConfig(role, index)},
                         {"COHORT_DATA_DIR", options_.data_dir},
                         {"XDG_RUNTIME_DIR", runtime_dir()}};
  for (const char* name : {"PATH", "HOME", "TSAN_OPTIONS", "ASAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) options.environment.emplace_back(name, value);
  }
  BeginLife(role, index);
  const UniqueFd log(
      open(LogFile(role, index).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.ok()) return Unavailable("cannot write {}", LogFile(role, index));
  options.stdout_fd = log.get();
  options.stderr_fd = log.get();
  const auto directory = options_.working_directory.find(role);
  if (directory != options_.working_directory.end()) options.directory = directory->second;
  COHORT_ASSIGN_OR_RETURN(process.child, ChildProcess::Start(options));
  process.pid_fd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, process.child->pid(), 0)));
  return absl::OkStatus();
}

absl::Status ProcessCluster::Signal(TaskRole role, int index, int signal) {
  Process& process = processes_[{role, index}];
  if (!IsAlive(process)) {
    return FailedPrecondition("{}:{} does not run", TaskRoleName(role), index);
  }
  process.child->Signal(signal);
  return absl::OkStatus();
}

absl::Status ProcessCluster::Kill(TaskRole role, int index) {
  COHORT_RETURN_IF_ERROR(Signal(role, index, SIGKILL));
  processes_[{role, index}].child->Wait();
  return absl::OkStatus();
}

bool ProcessCluster::Running(TaskRole role, int index) {
  const auto it = processes_.find({role, index});
  return it != processes_.end() && IsAlive(it->second);
}

int ProcessCluster::EndFd(TaskRole role, int index) {
  const auto it = processes_.find({role, index});
  return it == processes_.end() ? -1 : it->second.pid_fd.get();
}

int ProcessCluster::ExitCode(TaskRole role, int index) {
  const Process& process = processes_[{role, index}];
  return process.child == nullptr ? 0 : ExitCodeOfWait(process.child->Wait());
}

bool ProcessCluster::IsAlive(const Process& process) {
  if (process.child == nullptr) return false;
  while (process.child->Poll().has_value()) {
  }
  return !process.child->ended();
}

}  // namespace cohort
