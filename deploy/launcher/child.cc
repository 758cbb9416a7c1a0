#include "deploy/launcher/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <sstream>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/os/open_file.h"

extern char** environ;

namespace cohort {
namespace {

constexpr int64_t kMostTail = 1 << 16;  // bytes of a log that are read for its last lines

// environ with additions, which win.
std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& additions) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced = std::any_of(additions.begin(), additions.end(), [&](const auto& a) {
      return text.starts_with(a.first + "=");
    });
    if (!replaced) merged.emplace_back(text);
  }
  for (const auto& [name, value] : additions) merged.push_back(name + "=" + value);
  return merged;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& s : *strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In the child, between fork and exec: only calls that are safe there. Returns errno where exec
// failed.
int BecomeChild(char* const* argv, char* const* environment, int log_fd, bool show_stdout,
                pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the launcher died before prctl
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(log_fd, STDERR_FILENO);
  if (!show_stdout) dup2(log_fd, STDOUT_FILENO);
  execve(argv[0], argv, environment);
  return errno;
}

absl::Status CannotExecute(const std::string& program, int error) {
  return WithExitCode(MakeStatus(error == ENOENT ? absl::StatusCode::kNotFound
                                                 : absl::StatusCode::kPermissionDenied,
                                 "{} cannot be executed: {}", program, std::strerror(error)),
                      ExitCode::kOs);
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  absl::StatusOr<UniqueFd> fd = OpenToAppend(path);
  if (fd.ok()) return fd;
  const absl::string_view why = fd.status().message();
  return WithExitCode(
      FailedPrecondition("its log cannot be written: {}. Remove what stands there, or give another "
                         "--run_dir",
                         std::string_view(why.data(), why.size())),
      ExitCode::kCantCreate);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Child>> Child::Start(const ChildSpec& spec, TimePoint now) {
  COHORT_ASSIGN_OR_RETURN(UniqueFd log, OpenLog(spec.log_file));
  const int64_t log_offset = lseek(log.get(), 0, SEEK_END);
  std::vector<std::string> argv = spec.argv;
  std::vector<std::string> environment = MergedEnvironment(spec.environment);
  const std::vector<char*> argv_pointers = Pointers(&argv);
  const std::vector<char*> environment_pointers = Pointers(&environment);
  int fds[2];  // carries errno where exec fails; closed by an exec that does not
  if (pipe2(fds, O_CLOEXEC) != 0) {
    return ResourceExhausted("no pipe for a child: {}", std::strerror(errno));
  }
  const UniqueFd reader(fds[0]);
  UniqueFd writer(fds[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    const int error = BecomeChild(argv_pointers.data(), environment_pointers.data(), log.get(),
                                  spec.show_stdout, parent);
    [[maybe_unused]] const ssize_t written = write(writer.get(), &error, sizeof(error));
    _exit(127);
  }
  const int fork_error = errno;
  writer.Close();
  log.Close();
  int error = 0;
  const bool failed = pid > 0 && read(reader.get(), &error, sizeof(error)) == sizeof(error);
  if (pid < 0)
    return ResourceExhausted("no process for {}: {}", spec.task, std::strerror(fork_error));
  if (failed) {
    waitpid(pid, nullptr, 0);
    return CannotExecute(spec.argv[0], error);
  }
  return std::unique_ptr<Child>(new Child(pid, now, spec.log_file, log_offset));
}

void Child::Signal(int signal) const { kill(pid_, signal); }

std::string Child::LastLines(int count) const {
  const absl::StatusOr<UniqueFd> fd = OpenRegularFile(log_file_);
  if (!fd.ok()) return "";
  const int64_t end = lseek(fd->get(), 0, SEEK_END);
  const int64_t begin = std::max(log_offset_, end - kMostTail);
  std::string tail(static_cast<size_t>(std::max<int64_t>(end - begin, 0)), '\0');
  const ssize_t got = pread(fd->get(), tail.data(), tail.size(), begin);
  tail.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  std::istringstream stream(tail);
  std::deque<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(std::move(line));
    if (lines.size() > static_cast<size_t>(count)) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += fmt::format("    {}\n", line);
  return text;
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
  }
  return fmt::format("exited with {}", WEXITSTATUS(wait_status));
}

int ExitCodeOfWait(int wait_status) {
  if (WIFSIGNALED(wait_status)) return ExitCodeOfSignal(WTERMSIG(wait_status));
  return WEXITSTATUS(wait_status);
}

}  // namespace cohort
