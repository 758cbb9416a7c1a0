#include "deploy/launcher/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/os/signals.h"

namespace cohort {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kChiefTask[] = "chief:0";
constexpr Duration kFirstPause = milliseconds(200);
constexpr Duration kLongestPause = seconds(5);
constexpr Duration kYoung = seconds(2);  // a task that dies before is restarted ever more slowly

bool IsFinal(int exit_code, bool chief) {
  switch (static_cast<ExitCode>(exit_code)) {
    case ExitCode::kUsage:
    case ExitCode::kData:
    case ExitCode::kNoInput:
    case ExitCode::kCantCreate:
    case ExitCode::kNoPermission:
    case ExitCode::kConfig:
      return true;
    case ExitCode::kUnavailable:
    case ExitCode::kIo:
      return chief;
    default:
      return false;
  }
}

bool IsServer(std::string_view task) { return task.starts_with("ps:"); }

bool EndsByItself(std::string_view task) { return task.starts_with("evaluator:"); }

bool NeedsServers(std::string_view task) { return !IsServer(task) && !EndsByItself(task); }

bool IsOnFullDisk(const std::string& path) {
  struct statvfs info = {};
  return statvfs(path.c_str(), &info) == 0 && info.f_bavail == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(SupervisorOptions options,
                                                               std::vector<ChildSpec> specs) {
  sigset_t set;
  sigemptyset(&set);
  SeeChildren();
  for (const int signal : {SIGTERM, SIGCHLD}) sigaddset(&set, signal);
  for (const int signal : {SIGINT, SIGHUP}) {
    if (!IsIgnored(signal)) sigaddset(&set, signal);
  }
  sigprocmask(SIG_BLOCK, &set, nullptr);
  UniqueFd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.ok()) return ResourceExhausted("no signalfd: {}", std::strerror(errno));
  return std::unique_ptr<Supervisor>(
      new Supervisor(std::move(options), std::move(specs), std::move(fd)));
}

Supervisor::Supervisor(SupervisorOptions options, std::vector<ChildSpec> specs, UniqueFd signal_fd)
    : options_(std::move(options)), signal_fd_(std::move(signal_fd)) {
  for (ChildSpec& spec : specs) tasks_.push_back({.spec = std::move(spec)});
}

Supervisor::~Supervisor() {
  SignalAll(SIGKILL);
  for (const Task& task : tasks_) {
    if (task.child != nullptr) waitpid(task.child->pid(), nullptr, 0);
  }
}

int Supervisor::Run() {
  for (Task& task : tasks_) {
    if (!exit_code_.has_value()) Start(&task);
  }
  while (AnyAlive()) {
    WaitForEvent();
    ReapChildren();
    OnTimers();
  }
  return exit_code_.value_or(0);
}

void Supervisor::Start(Task* task) {
  task->restart_at.reset();
  task->stands_still = false;
  task->still_at.reset();
  ChildSpec spec = task->spec;
  const auto& more = task->started ? spec.later_starts : spec.first_start;
  spec.argv.insert(spec.argv.end(), more.begin(), more.end());
  task->started = true;
  auto child = Child::Start(spec, clock_.Now());
  if (child.ok()) {
    task->child = *std::move(child);
    return;
  }
  const absl::string_view message = child.status().message();
  options_.say(
      fmt::format("{}: {}", task->spec.task, std::string_view(message.data(), message.size())));
  Stop(static_cast<int>(ExitCodeOf(child.status())));
}

void Supervisor::WaitForEvent() {
  const TimePoint now = clock_.Now();
  const TimePoint next = NextTimer();
  int timeout_ms = -1;
  if (next != TimePoint::max()) {
    const auto left = std::chrono::ceil<milliseconds>(next - now).count();
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }
  pollfd fd = {signal_fd_.get(), POLLIN, 0};
  poll(&fd, 1, timeout_ms);
  signalfd_siginfo info;
  while (read(signal_fd_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo != SIGCHLD) OnSignal(static_cast<int>(info.ssi_signo));
  }
}

void Supervisor::OnSignal(int signal) {
  if (phase_ == Phase::kStopping) {
    options_.say("killing what is left");
    phase_deadline_ = clock_.Now();
    return;
  }
  options_.say(fmt::format("{}: ending all tasks", strsignal(signal)));
  if (phase_ == Phase::kFinishing && IsAlive(EndsByItself)) exit_code_ = ExitCodeOfSignal(signal);
  Stop(ExitCodeOfSignal(signal));
}

void Supervisor::ReapChildren() {
  std::vector<std::pair<Task*, int>> ended;
  int wait_status = 0;
  constexpr int kHow = WNOHANG | WUNTRACED | WCONTINUED;
  for (pid_t pid = 0; (pid = waitpid(-1, &wait_status, kHow)) > 0;) {
    for (Task& task : tasks_) {
      if (task.child == nullptr || task.child->pid() != pid) continue;
      if (WIFSTOPPED(wait_status) || WIFCONTINUED(wait_status)) {
        OnStill(&task, WIFSTOPPED(wait_status));
      } else {
        ended.emplace_back(&task, wait_status);
      }
    }
  }
  // The chief first: what ended with it has ended because of it.
  std::stable_partition(ended.begin(), ended.end(),
                        [](const auto& end) { return end.first->spec.task == kChiefTask; });
  for (const auto& [task, status] : ended) OnExit(task, status);
}

void Supervisor::OnStill(Task* task, bool stands_still) {
  const bool said = task->stands_still && !task->still_at.has_value();
  if (said && !stands_still && !task->terminated)
    options_.say(fmt::format("{} goes on", task->spec.task));
  // It stopped as it was ended; again, it may be, before it was seen to go on.
  if (stands_still && task->terminated) task->child->Signal(SIGCONT);
  if (stands_still == task->stands_still) return;
  task->stands_still = stands_still;
  task->still_at.reset();
  if (stands_still && !task->terminated) task->still_at = clock_.Now() + options_.stopped;
}

void Supervisor::OnExit(Task* task, int wait_status) {
  const Duration lived = clock_.Now() - task->child->started();
  const int code = ExitCodeOfWait(wait_status);
  const bool chief = task->spec.task == kChiefTask;
  const bool expected =
      phase_ == Phase::kStopping || phase_ == Phase::kKilling || task->terminated || code == 0;
  if (!expected) options_.say(LastWords(*task, wait_status));
  task->child.reset();
  task->still_at.reset();
  if (chief && code == 0 && ended_for_lost_task_) exit_code_ = 0;
  if (phase_ == Phase::kFinishing && EndsByItself(task->spec.task) && !expected &&
      !IsFinal(code, chief) && options_.restart) {
    return ScheduleRestart(task, lived);
  }
  if (phase_ == Phase::kFinishing && EndsByItself(task->spec.task) && !expected &&
      IsFinal(code, chief)) {
    exit_code_ = code;
  }
  if (phase_ != Phase::kRunning) return;
  if (chief && code == 0) return EnterFinishing();
  if (IsFinal(code, chief) || (chief && !options_.restart)) return Stop(code);
  if (code == 0) return;
  if (options_.restart) return ScheduleRestart(task, lived);
  if (!ChiefNeeds(task->spec.task)) return;
  options_.say(
      fmt::format("the job cannot continue without {}: ending all tasks (--restart restarts "
                  "a task that dies)",
                  task->spec.task));
  ended_for_lost_task_ = true;
  Stop(static_cast<int>(ExitCode::kUnavailable));
}

bool Supervisor::ChiefNeeds(std::string_view dead) const {
  if (IsServer(dead)) return true;
  return dead.starts_with("worker:") &&
         std::none_of(tasks_.begin(), tasks_.end(), [](const Task& task) {
           return task.child != nullptr && task.spec.task.starts_with("worker:");
         });
}

std::string Supervisor::LastWords(const Task& task, int wait_status) const {
  const Duration lived = clock_.Now() - task.child->started();
  const std::string lines = task.child->LastLines(options_.last_lines);
  const std::string what = fmt::format("{} {} after {:.1f} s", task.spec.task,
                                       DescribeExit(wait_status), ToSeconds(lived));
  if (lines.empty()) {
    return fmt::format("{}; it wrote nothing to {}{}", what, task.spec.log_file,
                       IsOnFullDisk(task.spec.log_file) ? ", whose file system is full" : "");
  }
  return fmt::format("{}; the last lines of {}:\n{}", what, task.spec.log_file,
                     lines.substr(0, lines.size() - 1));
}

void Supervisor::ScheduleRestart(Task* task, Duration lived) {
  const bool young = lived < kYoung && task->pause > Duration::zero();
  task->pause = young ? std::min(task->pause * 2, kLongestPause) : kFirstPause;
  task->restart_at = clock_.Now() + task->pause;
  options_.say(
      fmt::format("{} is started again in {:.1f} s", task->spec.task, ToSeconds(task->pause)));
}

void Supervisor::OnTimers() {
  const TimePoint now = clock_.Now();
  for (Task& task : tasks_) OnTaskTimers(&task, now);
  if (phase_ == Phase::kFinishing && now >= last_call_ends_.value_or(now)) EndWhatIsLeft();
  EndServers();
  if (!phase_deadline_.has_value() || now < *phase_deadline_) return;
  if (phase_ == Phase::kFinishing) {
    options_.say("the job is done, and not all tasks have ended: ending them");
    Stop(0);
  } else if (phase_ == Phase::kStopping) {
    phase_ = Phase::kKilling;
    phase_deadline_.reset();
    servers_end_.reset();
    SignalAll(SIGKILL);
  }
}

void Supervisor::OnTaskTimers(Task* task, TimePoint now) {
  if (task->still_at.has_value() && *task->still_at <= now) {
    task->still_at.reset();
    options_.say(fmt::format("{} is stopped and does nothing: `kill -CONT {}` lets it go on",
                             task->spec.task, task->child->pid()));
  }
  if (task->restart_at.has_value() && *task->restart_at <= now) Start(task);
}

void Supervisor::Stop(int exit_code) {
  if (!exit_code_.has_value()) exit_code_ = exit_code;
  if (phase_ == Phase::kStopping || phase_ == Phase::kKilling) return;
  phase_ = Phase::kStopping;
  phase_deadline_ = clock_.Now() + options_.grace;
  last_call_ends_.reset();
  ForgetRestarts(/*evaluators=*/true);
  EndInOrder(/*evaluators=*/true);
}

void Supervisor::EndInOrder(bool evaluators) {
  for (Task& task : tasks_) {
    if (EndsByItself(task.spec.task) ? evaluators : !IsServer(task.spec.task)) Terminate(&task);
  }
  servers_end_ = clock_.Now() + options_.grace / 2;
  EndServers();
}

void Supervisor::EndServers() {
  if (!servers_end_.has_value()) return;
  if (clock_.Now() < *servers_end_ && IsAlive(NeedsServers)) return;
  servers_end_.reset();
  for (Task& task : tasks_) {
    if (IsServer(task.spec.task)) Terminate(&task);
  }
}

void Supervisor::EndWhatIsLeft() {
  last_call_ends_.reset();
  if (servers_end_.has_value()) return;
  std::string names;
  for (const Task& task : tasks_) {
    if (task.child == nullptr || task.terminated || EndsByItself(task.spec.task)) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", task.spec.task);
  }
  if (!names.empty()) options_.say(fmt::format("the job is done: ending {}", names));
  if (!IsAlive(EndsByItself)) return Stop(0);
  if (!names.empty()) EndInOrder(/*evaluators=*/false);
}

void Supervisor::EnterFinishing() {
  exit_code_ = 0;
  phase_ = Phase::kFinishing;
  phase_deadline_ = clock_.Now() + options_.finish;
  last_call_ends_ = clock_.Now() + options_.last_call;
  ForgetRestarts(/*evaluators=*/false);
}

void Supervisor::ForgetRestarts(bool evaluators) {
  for (Task& task : tasks_) {
    if (evaluators || !EndsByItself(task.spec.task)) task.restart_at.reset();
  }
}

void Supervisor::SignalAll(int signal) {
  for (const Task& task : tasks_) {
    if (task.child != nullptr) task.child->Signal(signal);
  }
}

void Supervisor::Terminate(Task* task) {
  task->terminated = true;
  if (task->child == nullptr) return;
  task->child->Signal(SIGTERM);
  if (task->stands_still) task->child->Signal(SIGCONT);
}

bool Supervisor::IsAlive(bool (*which)(std::string_view task)) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
    return (task.child != nullptr || task.restart_at.has_value()) && which(task.spec.task);
  });
}

bool Supervisor::AnyAlive() const {
  return std::any_of(tasks_.begin(), tasks_.end(), [](const Task& task) {
    return task.child != nullptr || task.restart_at.has_value();
  });
}

TimePoint Supervisor::NextTimer() const {
  TimePoint next = phase_deadline_.value_or(TimePoint::max());
  next = std::min({next, last_call_ends_.value_or(next), servers_end_.value_or(next)});
  for (const Task& task : tasks_) {
    for (const auto& timer : {task.restart_at, task.still_at}) {
      next = std::min(next, timer.value_or(next));
    }
  }
  return next;
}

}  // namespace cohort
