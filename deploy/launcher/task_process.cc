#include "deploy/launcher/task_process.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <sstream>
#include <string_view>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

constexpr int64_t kMaxTailBytes = 1 << 16;  // bytes of a log that are read for its last lines
constexpr size_t kLastLines = 12;

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  absl::StatusOr<UniqueFd> fd = OpenToAppend(path);
  if (fd.ok()) return fd;
  const absl::string_view why = fd.status().message();
  return WithExitCode(
      FailedPrecondition("its log cannot be written: {}. Remove it, or give another --run_dir",
                         std::string_view(why.data(), why.size())),
      ExitCode::kCantCreate);
}

bool IsOnFullDisk(const std::string& path) {
  struct statvfs info = {};
  return statvfs(path.c_str(), &info) == 0 && info.f_bavail == 0;
}

// "exited with 70", "was killed by signal 9 (Killed)".
std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    return fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
  }
  return fmt::format("exited with {}", WEXITSTATUS(wait_status));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskProcess>> TaskProcess::Start(const TaskCommand& command,
                                                                bool restart, TimePoint now) {
  UniqueFd log;
  if (!command.log_file.empty()) {
    COHORT_ASSIGN_OR_RETURN(log, OpenLog(command.log_file));
  }
  const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  std::unique_ptr<TaskProcess> process(new TaskProcess(command, now));
  if (log.ok()) process->log_offset_ = lseek(log.get(), 0, SEEK_END);
  ChildProcessOptions options{.argv = command.argv,
                              .environment = command.environment,
                              .stdin_fd = null.get(),
                              .stdout_fd = command.show_stdout ? -1 : log.get(),
                              .stderr_fd = log.get(),
                              .own_group = true};
  const auto& more = restart ? command.later_starts : command.first_start;
  options.argv.insert(options.argv.end(), more.begin(), more.end());
  COHORT_ASSIGN_OR_RETURN(process->child_, ChildProcess::Start(options));
  return process;
}

std::string TaskProcess::DescribeEnd(int wait_status, TimePoint now) const {
  const std::string& log = command_.log_file;
  const std::string end = fmt::format("{} {} after {:.1f} s", command_.task,
                                      DescribeExit(wait_status), ToSeconds(now - started_));
  if (log.empty()) return end;
  const std::string lines = LastLogLines();
  if (!lines.empty()) return fmt::format("{}; the last lines of {}:\n{}", end, log, lines);
  return fmt::format("{}; it wrote nothing to {}{}", end, log,
                     IsOnFullDisk(log) ? ", whose file system is full" : "");
}

// Returns the lines with an indent, without the last newline; "" if this process wrote none.
std::string TaskProcess::LastLogLines() const {
  const absl::StatusOr<UniqueFd> fd = OpenRegularFile(command_.log_file);
  if (!fd.ok()) return "";
  const int64_t end = lseek(fd->get(), 0, SEEK_END);
  const int64_t begin = std::max(log_offset_, end - kMaxTailBytes);
  std::string tail(static_cast<size_t>(std::max<int64_t>(end - begin, 0)), '\0');
  const ssize_t got = pread(fd->get(), tail.data(), tail.size(), begin);
  tail.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  std::istringstream stream(tail);
  std::deque<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back("    " + line);
    if (lines.size() > kLastLines) lines.pop_front();
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace cohort
