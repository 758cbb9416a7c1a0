#include "common/os/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

extern char** environ;

namespace cohort {
namespace {

std::vector<std::string> Environment(const ChildProcessOptions& options) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : options.environment) entries.push_back(name + "=" + value);
  for (char** entry = environ; options.inherit_environment && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced =
        std::any_of(options.environment.begin(), options.environment.end(),
                    [&](const auto& variable) { return text.starts_with(variable.first + "="); });
    if (!replaced) entries.emplace_back(text);
  }
  return entries;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Becomes the program, in the child: between fork and exec only calls that neither allocate nor
// lock are safe. Returns errno if that fails.
int Become(const ChildProcessOptions& options, char* const* argv, char* const* environment,
           pid_t parent) {
  if (options.own_group) setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, options.death_signal);
  if (getppid() != parent) _exit(1);  // the parent died before prctl
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) return errno;
  if (options.stdin_fd >= 0) dup2(options.stdin_fd, STDIN_FILENO);
  if (options.stdout_fd >= 0) dup2(options.stdout_fd, STDOUT_FILENO);
  if (options.stderr_fd >= 0) dup2(options.stderr_fd, STDERR_FILENO);
  execve(argv[0], argv, environment);
  return errno;
}

}  // namespace

absl::Status CannotExecute(const std::string& program, int error) {
  std::string what = fmt::format("{} cannot be executed: {}", program, std::strerror(error));
  const std::filesystem::path path(program);
  const std::filesystem::path tree = path.parent_path().parent_path();
  std::error_code ignored;
  if (error == ENOENT && std::filesystem::exists(tree / "CMakeCache.txt", ignored)) {
    what += fmt::format("; build it: cmake --build {} --target {}", tree.string(),
                        path.filename().string());
  } else if (error == ENOENT) {
    what += "; install the complete suite of programs into one folder";
  }
  return WithExitCode(MakeStatus(error == ENOENT ? absl::StatusCode::kNotFound
                                                 : absl::StatusCode::kPermissionDenied,
                                 "{}", what),
                      ExitCode::kOs);
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const ChildProcessOptions& options) {
  std::vector<std::string> argv = options.argv;
  std::vector<std::string> environment = Environment(options);
  const std::vector<char*> argv_pointers = Pointers(&argv);
  const std::vector<char*> environment_pointers = Pointers(&environment);
  int fds[2];  // carries errno if exec fails; an exec that succeeds closes it
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return ResourceExhausted("no pipe for {}: {}", argv[0], std::strerror(errno));
  }
  const UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ResourceExhausted("no process for {}: {}", argv[0], std::strerror(errno));
  if (pid == 0) {
    const int error = Become(options, argv_pointers.data(), environment_pointers.data(), parent);
    [[maybe_unused]] const ssize_t written = write(writer.get(), &error, sizeof(error));
    _exit(127);
  }
  writer.Close();
  std::unique_ptr<ChildProcess> child(new ChildProcess(pid));
  int error = 0;
  ssize_t n = 0;
  do {
    n = read(reader.get(), &error, sizeof(error));
  } while (n < 0 && errno == EINTR);
  if (n == sizeof(error)) return CannotExecute(argv[0], error);
  return child;
}

ChildProcess::~ChildProcess() {
  Signal(SIGKILL);
  Wait();
}

void ChildProcess::Signal(int signal) const {
  if (!ended_) kill(pid_, signal);
}

int ChildProcess::Wait() {
  while (!ended_) {
    if (waitpid(pid_, &wait_status_, 0) == pid_ || errno != EINTR) ended_ = true;
  }
  return wait_status_;
}

std::optional<int> ChildProcess::Poll() {
  int status = 0;
  if (ended_ || waitpid(pid_, &status, WNOHANG | WUNTRACED | WCONTINUED) != pid_) {
    return std::nullopt;
  }
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    ended_ = true;
    wait_status_ = status;
  }
  return status;
}

int ExitCodeOfWait(int wait_status) {
  if (WIFSIGNALED(wait_status)) return ExitCodeOfSignal(WTERMSIG(wait_status));
  return WEXITSTATUS(wait_status);
}

}  // namespace cohort
