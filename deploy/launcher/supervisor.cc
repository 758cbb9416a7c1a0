#include "deploy/launcher/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
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

constexpr milliseconds kMaxPoll{60'000};

// Returns true if a retry would end in the same way. The chief already waited for tasks that this
// supervisor restarts.
bool IsFinal(int exit_code, bool chief) {
  if (chief && exit_code == static_cast<int>(ExitCode::kUnavailable)) return true;
  return exit_code != 0 && !IsWorthAnotherTry(exit_code);
}

bool IsAnyTask(const SupervisedTask&) { return true; }
bool IsEvaluator(const SupervisedTask& task) { return task.is_evaluator(); }
bool NeedsServers(const SupervisedTask& task) { return !task.is_server() && !task.is_evaluator(); }

}  // namespace

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(SupervisorOptions options,
                                                               std::vector<TaskCommand> commands) {
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
  std::unique_ptr<Supervisor> supervisor(new Supervisor(std::move(options), std::move(fd)));
  for (TaskCommand& command : commands) {
    supervisor->tasks_.emplace_back(std::move(command), supervisor->options_.report_stopped,
                                    supervisor->options_.print);
  }
  return supervisor;
}

Supervisor::~Supervisor() { KillAll(); }

int Supervisor::Run() {
  for (SupervisedTask& task : tasks_) {
    if (!exit_code_.has_value()) Start(&task);
  }
  while (AnyAlive(IsAnyTask)) {
    WaitForEvent();
    ReapProcesses();
    OnTimers();
  }
  return exit_code_.value_or(0);
}

void Supervisor::Start(SupervisedTask* task) {
  const absl::Status started = task->Start(clock_.Now());
  if (started.ok()) return;
  options_.print(fmt::format("{}: {}", task->name(), std::string(started.message())));
  Stop(static_cast<int>(ExitCodeOf(started)));
}

void Supervisor::WaitForEvent() {
  const TimePoint now = clock_.Now();
  const TimePoint next = NextTimer();
  int timeout_ms = -1;
  if (next != TimePoint::max()) {
    const auto left = std::chrono::ceil<milliseconds>(next - now);
    timeout_ms = static_cast<int>(std::clamp(left, milliseconds(0), kMaxPoll).count());
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
    options_.print("killing the tasks that still run");
    phase_deadline_ = clock_.Now();
    return;
  }
  options_.print(fmt::format("{}: ending all tasks", strsignal(signal)));
  if (phase_ == Phase::kFinishing && AnyAlive(IsEvaluator)) exit_code_ = ExitCodeOfSignal(signal);
  Stop(ExitCodeOfSignal(signal));
}

void Supervisor::ReapProcesses() {
  std::vector<std::pair<SupervisedTask*, Exit>> ended;
  for (SupervisedTask& task : tasks_) {
    if (auto exit = task.Poll(clock_.Now())) ended.emplace_back(&task, *std::move(exit));
  }
  // The chief comes first: tasks that ended at the same time ended because of it.
  std::stable_partition(ended.begin(), ended.end(),
                        [](const auto& end) { return end.first->is_chief(); });
  for (const auto& [task, exit] : ended) OnExit(task, exit);
}

void Supervisor::OnExit(SupervisedTask* task, const Exit& exit) {
  if (task->is_chief() && exit.code == 0 && ended_for_lost_task_) exit_code_ = 0;
  if (phase_ == Phase::kStopping || phase_ == Phase::kKilling) return;
  const bool died = !exit.report.empty();
  const bool stopped = task->is_chief() && exit.code == static_cast<int>(ExitCode::kStopped);
  if (died) options_.print(stopped ? "the job was stopped: ending all tasks" : exit.report);
  if (phase_ == Phase::kRunning) return OnExitWhileRunning(task, exit);
  if (!died || !task->is_evaluator()) return;
  if (IsFinal(exit.code, /*chief=*/false)) {
    exit_code_ = exit.code;
  } else if (options_.restart) {
    task->ScheduleRestart(exit.ran, clock_.Now());
  }
}

void Supervisor::OnExitWhileRunning(SupervisedTask* task, const Exit& exit) {
  const bool chief = task->is_chief();
  if (chief && exit.code == 0) return EnterFinishing();
  if (IsFinal(exit.code, chief)) return Stop(exit.code);
  if (exit.code == 0) return;
  if (options_.restart) return task->ScheduleRestart(exit.ran, clock_.Now());
  if (task->is_evaluator()) return;
  const auto count = [this](auto which) {
    return std::count_if(tasks_.begin(), tasks_.end(), which);
  };
  const auto left = count([](const auto& t) { return t.is_worker() && t.running(); });
  if (task->is_spare() && left > 0) {
    const auto all = count([](const auto& t) { return t.is_worker(); });
    return options_.print(fmt::format("the job continues with {} of {} workers", left, all));
  }
  options_.print(fmt::format(
      "{} has died, and nothing restarts it: ending all tasks (--restart restarts a task "
      "that dies)",
      task->name()));
  ended_for_lost_task_ = !chief;
  Stop(chief ? exit.code : static_cast<int>(ExitCode::kUnavailable));
}

void Supervisor::OnTimers() {
  const TimePoint now = clock_.Now();
  for (SupervisedTask& task : tasks_) {
    task.ReportIfStopped(now);
    if (task.restart_due(now)) Start(&task);
  }
  if (phase_ == Phase::kFinishing && now >= last_call_ends_.value_or(now)) EndRemainingTasks();
  EndServers();
  if (phase_deadline_.has_value() && now >= *phase_deadline_) OnPhaseDeadline();
}

void Supervisor::OnPhaseDeadline() {
  if (phase_ == Phase::kFinishing) {
    options_.print("the job is done, and not all tasks have ended: ending them");
    Stop(0);
  } else if (phase_ == Phase::kStopping) {
    phase_ = Phase::kKilling;
    phase_deadline_.reset();
    servers_end_.reset();
    KillAll();
  }
}

void Supervisor::EnterFinishing() {
  exit_code_ = 0;
  phase_ = Phase::kFinishing;
  phase_deadline_ = clock_.Now() + options_.finish;
  last_call_ends_ = clock_.Now() + options_.last_call;
  CancelRestarts(/*evaluators=*/false);
}

void Supervisor::EndRemainingTasks() {
  last_call_ends_.reset();
  if (servers_end_.has_value()) return;
  std::vector<std::string> names;
  for (const SupervisedTask& task : tasks_) {
    if (task.running() && !task.ending() && !task.is_evaluator()) names.push_back(task.name());
  }
  if (!names.empty()) {
    options_.print(fmt::format("the job is done: ending {}", fmt::join(names, ", ")));
  }
  if (!AnyAlive(IsEvaluator)) return Stop(0);
  if (!names.empty()) EndInOrder(/*evaluators=*/false);
}

void Supervisor::Stop(int exit_code) {
  if (!exit_code_.has_value()) exit_code_ = exit_code;
  if (phase_ == Phase::kStopping || phase_ == Phase::kKilling) return;
  phase_ = Phase::kStopping;
  phase_deadline_ = clock_.Now() + options_.grace;
  last_call_ends_.reset();
  CancelRestarts(/*evaluators=*/true);
  EndInOrder(/*evaluators=*/true);
}

void Supervisor::EndInOrder(bool evaluators) {
  for (SupervisedTask& task : tasks_) {
    if (task.is_evaluator() ? evaluators : !task.is_server()) task.Terminate();
  }
  servers_end_ = clock_.Now() + options_.grace / 2;
  EndServers();
}

void Supervisor::EndServers() {
  if (!servers_end_.has_value()) return;
  if (clock_.Now() < *servers_end_ && AnyAlive(NeedsServers)) return;
  servers_end_.reset();
  for (SupervisedTask& task : tasks_) {
    if (task.is_server()) task.Terminate();
  }
}

void Supervisor::KillAll() {
  for (SupervisedTask& task : tasks_) task.Kill();
}

void Supervisor::CancelRestarts(bool evaluators) {
  for (SupervisedTask& task : tasks_) {
    if (evaluators || !task.is_evaluator()) task.CancelRestart();
  }
}

template <typename Predicate>
bool Supervisor::AnyAlive(Predicate which) const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [&](const SupervisedTask& task) { return task.alive() && which(task); });
}

TimePoint Supervisor::NextTimer() const {
  TimePoint next = TimePoint::max();
  for (const auto& timer : {phase_deadline_, last_call_ends_, servers_end_}) {
    next = std::min(next, timer.value_or(next));
  }
  for (const SupervisedTask& task : tasks_) next = std::min(next, task.NextTimer());
  return next;
}

}  // namespace cohort
