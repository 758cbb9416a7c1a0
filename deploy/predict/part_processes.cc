#include "deploy/predict/part_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/checkpoint/file.h"
#include "common/os/identity.h"
#include "common/os/open_file.h"
#include "common/os/signals.h"

namespace cohort {
namespace {

constexpr uint64_t kMostLogBytes = uint64_t{1} << 20;

// Blocks the signals, which are read from the descriptor.
absl::StatusOr<UniqueFd> BlockSignals() {
  ResetSigchld();
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGCHLD}) sigaddset(&set, signal);
  for (const int signal : {SIGINT, SIGHUP}) {
    if (!IsIgnored(signal)) sigaddset(&set, signal);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.ok()) return ResourceExhausted("no signalfd: {}", std::strerror(errno));
  return fd;
}

std::vector<std::string> CommandOf(const PredictOptions& options, const std::string& checkpoint) {
  const int share = std::max(1, AvailableCores() / options.workers);
  std::vector<std::string> command = {
      std::filesystem::read_symlink("/proc/self/exe").string(), "--out", options.out, "--threads",
      fmt::to_string(options.threads > 0 ? options.threads : share)};
  for (const std::string& plugin : options.plugins) command.push_back("--plugin=" + plugin);
  command.push_back(checkpoint);
  if (!options.data.empty()) command.push_back(options.data);
  return command;
}

// What the process has printed as its error; "" if it has printed none.
std::string ErrorIn(const std::string& log) {
  constexpr std::string_view kBefore = "cohort: error: ";
  std::string text = ReadFile(log, kMostLogBytes).value_or("");
  const size_t at = text.find(kBefore);
  if (at != std::string::npos) text.erase(0, at + kBefore.size());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

PartProcesses::PartProcesses(const PredictOptions& options, const std::string& checkpoint,
                             UniqueFd signal_fd, UniqueFd null_fd)
    : folder_(options.out),
      command_(CommandOf(options, checkpoint)),
      signal_fd_(std::move(signal_fd)),
      null_fd_(std::move(null_fd)),
      parts_(static_cast<size_t>(options.workers)) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].number = {static_cast<int>(i), options.workers};
  }
}

absl::StatusOr<std::unique_ptr<PartProcesses>> PartProcesses::Create(
    const PredictOptions& options, const std::string& checkpoint) {
  COHORT_ASSIGN_OR_RETURN(UniqueFd signal_fd, BlockSignals());
  UniqueFd null_fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  return std::unique_ptr<PartProcesses>(
      new PartProcesses(options, checkpoint, std::move(signal_fd), std::move(null_fd)));
}

absl::Status PartProcesses::Run() {
  for (Part& part : parts_) COHORT_RETURN_IF_ERROR(Start(&part));
  const auto runs = [](const Part& part) { return part.process != nullptr; };
  while (std::any_of(parts_.begin(), parts_.end(), runs)) {
    COHORT_RETURN_IF_ERROR(WaitForEvent());
    for (Part& part : parts_) {
      if (!runs(part)) continue;
      const std::optional<int> status = part.process->Poll();
      if (part.process->ended()) COHORT_RETURN_IF_ERROR(OnEnd(&part, *status));
    }
  }
  return absl::OkStatus();
}

absl::Status PartProcesses::Start(Part* part) {
  ++part->tries;
  const std::string log = folder_.Log(part->number.index);
  const UniqueFd log_fd(
      ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!log_fd.ok()) return ErrnoStatus("cannot open", log, errno);
  ChildProcessOptions child;
  child.argv = command_;
  child.argv.insert(child.argv.begin() + 1,
                    fmt::format("--part={}/{}", part->number.index, part->number.count));
  child.stdout_fd = null_fd_.get();
  child.stderr_fd = log_fd.get();
  child.own_group = true;
  COHORT_ASSIGN_OR_RETURN(part->process, ChildProcess::Start(child));
  return absl::OkStatus();
}

absl::Status PartProcesses::WaitForEvent() {
  pollfd fd = {signal_fd_.get(), POLLIN, 0};
  poll(&fd, 1, /*timeout=*/-1);
  signalfd_siginfo info;
  while (read(signal_fd_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) continue;
    const int signal = static_cast<int>(info.ssi_signo);
    return WithExitCode(Cancelled("{}: no predictions were written", strsignal(signal)),
                        static_cast<ExitCode>(ExitCodeOfSignal(signal)));
  }
  return absl::OkStatus();
}

absl::Status PartProcesses::OnEnd(Part* part, int wait_status) {
  part->process.reset();
  const int code = ExitCodeOfWait(wait_status);
  if (code == 0) return absl::OkStatus();
  if (!IsWorthAnotherTry(code) || part->tries == kTries) return Failed(*part, wait_status);
  return Start(part);
}

absl::Status PartProcesses::Failed(const Part& part, int wait_status) const {
  const int code = ExitCodeOfWait(wait_status);
  std::string text = ErrorIn(folder_.Log(part.number.index));
  if (WIFSIGNALED(wait_status) || text.empty()) {
    const int signal = WTERMSIG(wait_status);
    text = fmt::format(
        "the process of part {} of {} {}{}{}{}", part.number.index, part.number.count,
        signal != 0 ? fmt::format("was killed by signal {} ({})", signal, strsignal(signal))
                    : fmt::format("ended with {}", code),
        part.tries > 1 ? fmt::format(", {} times in a row", part.tries) : "",
        signal == SIGKILL ? ": if memory is short, choose fewer --workers" : "",
        text.empty() ? "" : "; it printed " + text);
  }
  return WithExitCode(Internal("{}", text), static_cast<ExitCode>(code));
}

}  // namespace cohort
