#include "chief/chief.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include "chief/end_deadline.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/os/service_notifier.h"
#include "common/os/signals.h"
#include "common/rpc/admin/admin_server.h"

namespace cohort {
namespace {

// What the start of the cluster gets again and again from a service manager.
constexpr Duration kStartExtension = std::chrono::seconds(60);

}  // namespace

Chief::Chief(Options options)
    : options_(std::move(options)),
      progress_(&clock_, options_.progress, options_.progress_output) {
  options_.job.clock = &clock_;
  options_.job.progress = &progress_;
  options_.job.on_outcome = [this](const absl::StatusOr<JobReport>& outcome) {
    {
      MutexLock lock(&mu_);
      outcome_ = outcome;
    }
    if (options_.on_outcome) options_.on_outcome();
  };
  runner_ = std::make_unique<JobRunner>(options_.job);
}

Chief::~Chief() {
  Interrupt();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::unique_ptr<Chief>> Chief::Start(Options options) {
  std::unique_ptr<Chief> chief(new Chief(std::move(options)));
  chief->AddMetrics();
  chief->AddWorkerMetrics();
  chief->AddTaskMetrics(Role::kWorker, &CoordinatorState::worker_reports);
  chief->AddTaskMetrics(Role::kPs, &CoordinatorState::server_reports);
  COHORT_RETURN_IF_ERROR(chief->StartAdmin());
  chief->thread_ = std::thread([c = chief.get()] {
    absl::StatusOr<JobReport> outcome = c->runner_->Run();
    {
      MutexLock lock(&c->mu_);
      if (!c->outcome_.has_value()) c->outcome_ = std::move(outcome);
      c->ended_ = true;
      c->changed_.SignalAll();
    }
    if (c->options_.on_done) c->options_.on_done();
  });
  return chief;
}

absl::Status Chief::StartAdmin() {
  if (options_.admin_address.empty()) return absl::OkStatus();
  AdminServer::Options admin;
  admin.address = options_.admin_address;
  admin.readiness = [this] { return runner_->Readiness(); };
  admin.metrics = [this] { return registry_.Text(); };
  admin.status = [this] { return StatusText(); };
  admin.status_json = [this] { return StatusJsonText(runner_->Status()); };
  COHORT_ASSIGN_OR_RETURN(admin_, AdminServer::Start(std::move(admin)));
  return absl::OkStatus();
}

int Chief::admin_port() const { return admin_ == nullptr ? -1 : admin_->port(); }

namespace {

double LossOf(const CoordinatorState& state) {
  for (const MetricState& metric : state.metrics) {
    if (metric.name == "loss") return metric.Value();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void Chief::AddTaskMetrics(Role role, std::vector<TaskReport> CoordinatorState::*reports) {
  for (size_t i = 0; i < options_.job.cluster.tasks(role).size(); ++i) {
    const auto read = [this, i, reports] {
      const auto coordinator = runner_->coordinator();
      if (coordinator == nullptr) return 0.0;
      const CoordinatorState state = coordinator->state();
      return i < (state.*reports).size() && (state.*reports)[i].connected ? 1.0 : 0.0;
    };
    registry_.AddCallback("cohort_chief_task_connected", "1 if the chief has the task, else 0.",
                          read, {{"task", Task{role, static_cast<int>(i)}.ToString()}});
  }
}

void Chief::AddMetrics() {
  options_.job.security->AddMetrics(&registry_);
  const auto add = [&](const char* name, const char* help,
                       std::function<double(const CoordinatorState&)> read) {
    registry_.AddCallback(name, help, [this, read = std::move(read)] {
      const auto coordinator = runner_->coordinator();
      return coordinator == nullptr ? 0.0 : read(coordinator->state());
    });
  };
  using State = CoordinatorState;
  const auto number = [](auto field) {
    return [field](const State& s) { return static_cast<double>(s.*field); };
  };
  const auto counter = [](auto field) {
    return [field](const State& s) { return static_cast<double>(s.counters.*field); };
  };
  add("cohort_chief_steps", "Training steps of the whole job.", number(&State::steps));
  add("cohort_chief_loss", "Mean training loss of the current epoch; NaN before its first result.",
      LossOf);
  add("cohort_chief_queue_depth", "Closures that wait for a worker.", number(&State::queued));
  add("cohort_chief_in_flight", "Closures that workers are running.", number(&State::in_flight));
  add("cohort_chief_closures_total", "Closures finished.", counter(&CoreCounters::finished));
  add("cohort_chief_examples_total", "Examples of the closures finished.",
      counter(&CoreCounters::examples));
  add("cohort_chief_requeued_total", "Closures run again.", counter(&CoreCounters::requeued));
  add("cohort_chief_mixed_total", "Closures of which tablets applied different attempts.",
      counter(&CoreCounters::mixed));
  add("cohort_chief_duplicates_total", "Push sections refused as duplicates.",
      counter(&CoreCounters::duplicates));
  add("cohort_chief_not_finite_total", "Closures with an infinite or NaN loss or metric.",
      counter(&CoreCounters::not_finite));
  add("cohort_chief_max_staleness", "Largest staleness of a push.",
      counter(&CoreCounters::max_staleness));
  add("cohort_chief_applied_total", "Push sections applied.", counter(&CoreCounters::applied));
  add("cohort_chief_staleness_total", "Staleness of all push sections applied.",
      counter(&CoreCounters::sum_staleness));
  add("cohort_chief_synchronous_steps", "Synchronous steps of the whole job.",
      number(&State::synchronous_steps));
  add("cohort_chief_dropped_total", "Closures without which a synchronous step was closed.",
      counter(&CoreCounters::dropped));
  add("cohort_chief_skipped_steps_total",
      "Synchronous steps that were skipped: a gradient was not finite.",
      counter(&CoreCounters::skipped));
  add("cohort_chief_not_finite_steps_total", "Steps in float16 whose gradient was not finite.",
      counter(&CoreCounters::not_finite_steps));
  add("cohort_chief_lost_results_total", "Results of closed synchronous steps that were lost.",
      counter(&CoreCounters::lost_results));
  add("cohort_chief_step_wait_seconds_total",
      "Waiting for the slowest half of the closures of synchronous steps.",
      [](const State& s) { return static_cast<double>(s.counters.waited_us) / 1e6; });
  add("cohort_chief_workers_ready", "Workers that take closures.", number(&State::ready_workers));
  add("cohort_chief_workers_lost_total", "Workers lost, by the whole job.",
      counter(&CoreCounters::workers_lost));
  add("cohort_chief_ps_lost_total", "Parameter servers lost, by the whole job.",
      counter(&CoreCounters::ps_lost));
  add("cohort_chief_rollbacks_total",
      "Times that the job went back to its newest checkpoint after a lost parameter server.",
      counter(&CoreCounters::rollbacks));
  add("cohort_chief_checkpoints_total", "Checkpoints committed.", counter(&CoreCounters::cuts));
  add("cohort_chief_checkpoint_failures_total", "Checkpoints that failed.",
      counter(&CoreCounters::cut_failures));
  add("cohort_chief_checkpoint_age_seconds",
      "Time since this chief has committed or restored a checkpoint, or started.",
      number(&State::checkpoint_age_seconds));
  add("cohort_chief_checkpoint_hold_seconds_total",
      "How long checkpoints have kept training closures from workers.",
      [](const State& s) { return static_cast<double>(s.counters.held_us) / 1e6; });
  add("cohort_chief_journal_refusals_total",
      "Logged errors of the journal's disk; the chief waited until each was over.",
      number(&State::journal_refusals));
  add("cohort_chief_journal_stalled_seconds",
      "How long a record has been waiting to be durable; training stops when it must wait for one.",
      number(&State::journal_stalled_seconds));
  add("cohort_chief_journal_fsyncs_total", "Fsyncs of the journal.",
      number(&State::journal_fsyncs));
  add("cohort_chief_timeline", "The job's timeline.", number(&State::timeline));
  add("cohort_chief_generation", "This chief's generation.", number(&State::generation));
}

void Chief::AddWorkerMetrics() {
  using Figure = double (*)(const WorkerFigures&);
  const auto add = [&](size_t worker, const char* name, const char* help, Figure figure) {
    const auto read = [this, worker, figure] {
      const auto coordinator = runner_->coordinator();
      if (coordinator == nullptr) return 0.0;
      const std::vector<WorkerFigures> workers = coordinator->state().workers;
      return worker < workers.size() ? figure(workers[worker]) : 0.0;
    };
    registry_.AddCallback(name, help, read, {{"worker", std::to_string(worker)}});
  };
  for (size_t i = 0; i < options_.job.cluster.tasks(Role::kWorker).size(); ++i) {
    add(i, "cohort_chief_worker_steps_total", "Steps of the closures that a worker has finished.",
        [](const WorkerFigures& w) { return static_cast<double>(w.steps); });
    add(i, "cohort_chief_worker_in_flight", "Closures that a worker is running.",
        [](const WorkerFigures& w) { return static_cast<double>(w.in_flight); });
    add(i, "cohort_chief_worker_silent_seconds",
        "How long a worker has had work and sent no result; it grows for a straggler.",
        [](const WorkerFigures& w) { return w.silent_seconds; });
  }
}

std::string Chief::StatusText() const {
  const auto coordinator = runner_->coordinator();
  if (coordinator == nullptr) return activity() + "\n";
  const CoordinatorState s = coordinator->state();
  const uint64_t epochs = options_.job.job.spec.fit().epochs();
  std::string text = fmt::format(
      "generation {}, timeline {}\nepoch {}, step {}\n{} closures wait, {} in flight on {} "
      "workers\n",
      s.generation, s.timeline, std::min<uint64_t>(s.epoch + 1, epochs), s.steps, s.queued,
      s.in_flight, s.ready_workers);
  for (size_t i = 0; i < s.workers.size(); ++i) {
    const WorkerFigures& w = s.workers[i];
    text += fmt::format("worker:{}  {} steps, ", i, w.steps);
    text += w.connected ? fmt::format("{} closures in hand, no result for {:.1f} s\n", w.in_flight,
                                      w.silent_seconds)
                        : "lost\n";
  }
  if (!s.waiting_for.empty()) text += s.waiting_for + "\n";
  for (const MetricState& metric : s.metrics) {
    text += fmt::format("{} {:.6f}\n", metric.name, metric.Value());
  }
  return text + "\n" + ShardPlan(*coordinator);
}

void Chief::Notify(ServiceNotifier* notifier) {
  const auto coordinator = runner_->coordinator();
  if (runner_->started()) notifier->Ready();
  if (coordinator == nullptr) {
    std::string doing = runner_->waiting_for();
    if (doing.empty()) doing = activity();
    // A wait reports its time every few seconds, until its deadline.
    if (!notifier->ready() && doing != notified_) notifier->Extend(kStartExtension);
    notifier->SetStatus(doing);
    notifier->Watch({std::hash<std::string>()(doing)});
    notified_ = std::move(doing);
    return;
  }
  const CoordinatorState s = coordinator->state();
  if (!notifier->ready()) {
    // The waits of a restore have deadlines of their own.
    notifier->Extend(kStartExtension);
    notifier->SetStatus(s.waiting_for.empty() ? activity() : s.waiting_for);
    return;
  }
  const uint64_t epochs = options_.job.job.spec.fit().epochs();
  std::string text =
      fmt::format("epoch {}/{}, step {}", std::min(s.epoch + 1, epochs), epochs, s.steps);
  for (const MetricState& metric : s.metrics) {
    text += fmt::format(", {} {:.4f}", metric.name, metric.Value());
  }
  if (!s.waiting_for.empty()) text += "; " + s.waiting_for;
  notifier->SetStatus(text);
  notifier->Watch({s.ticks});
}

void Chief::Interrupt() { runner_->Interrupt(); }

absl::StatusOr<JobReport> Chief::Wait() {
  MutexLock lock(&mu_);
  while (!ended_) changed_.Wait(&mu_);
  return *outcome_;
}

std::optional<absl::StatusOr<JobReport>> Chief::outcome() const {
  MutexLock lock(&mu_);
  return outcome_;
}

namespace {

constexpr Duration kNotifyInterval = std::chrono::milliseconds(250);

int CodeOf(const absl::StatusOr<JobReport>& outcome, int signal) {
  // A job that had reached its end when the signal came is finished.
  if (outcome.ok()) return 0;
  return signal == 0 ? static_cast<int>(ExitCodeOf(outcome.status())) : ExitCodeOfSignal(signal);
}

void PrintOutcome(const absl::StatusOr<JobReport>& outcome, int signal, Logger* log) {
  if (outcome.ok()) {
    // The job has not failed if its report cannot be written.
    WriteToStdout(outcome->Text()).IgnoreError();
  } else if (signal == 0 && ExitCodeOf(outcome.status()) == ExitCode::kStopped) {
    WriteToStdout(std::string(outcome.status().message()) + "\n").IgnoreError();
  } else if (signal == 0) {
    ExitWith("cohort-chief", outcome.status());
  } else if (absl::IsCancelled(outcome.status())) {
    log->Info("ended_by_signal", {{"signal", signal}});
  } else {
    log->Failure(LogLevel::kError, "failed", outcome.status());
  }
}

}  // namespace

int RunUntilEnd(Chief* chief, SignalWaiter* signals, Logger* log, const EndLimits& limits,
                ServiceNotifier* notifier) {
  const bool notifies = notifier != nullptr && notifier->active();
  const Duration longest_wait = notifies ? kNotifyInterval : std::chrono::hours(1);
  EndDeadline end_deadline;
  std::optional<int> code;
  int signal = 0;
  TimePoint since;
  TimePoint deadline = TimePoint::max();
  // This must come before all calls that may hang.
  const auto limit = [&](Duration wait, int exit_code) {
    since = std::chrono::steady_clock::now();
    deadline = std::min(deadline, since + wait);
    end_deadline.Set(deadline + limits.moment, exit_code);
    // A finished job has been ready, even if its chief found it finished.
    if (notifies && exit_code == 0) notifier->Ready();
    if (notifies) notifier->Stopping(wait + 2 * limits.moment);
  };
  while (true) {
    if (notifies) chief->Notify(notifier);
    const std::optional<int> end =
        signals->WaitFor(deadline == TimePoint::max()
                             ? longest_wait
                             : std::min(longest_wait, deadline - std::chrono::steady_clock::now()));
    if (end.has_value() && *end != 0 && signal == 0) {
      signal = *end;
      limit(limits.stop, code.value_or(ExitCodeOfSignal(signal)));
      chief->Interrupt();
    }
    const auto outcome = code.has_value() ? std::nullopt : chief->outcome();
    if (outcome.has_value()) {
      code = CodeOf(*outcome, signal);
      limit(*code == 0 ? limits.finished : limits.failed, *code);
      PrintOutcome(*outcome, signal, log);
    }
    if (end == 0 && code.has_value()) {
      if (*code == 0) log->Info("finished");
      return *code;
    }
    if (std::chrono::steady_clock::now() < deadline) continue;
    // Nothing is lost: the journal's records are durable.
    log->Failure(
        LogLevel::kError, "stuck",
        DeadlineExceeded("the chief has not ended for {:.0f} s: {}; does its storage answer?",
                         ToSeconds(std::chrono::steady_clock::now() - since), chief->activity()));
    _exit(code.value_or(ExitCodeOfSignal(signal)));
  }
}

}  // namespace cohort
