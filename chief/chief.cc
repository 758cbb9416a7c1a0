#include "chief/chief.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "chief/chief_metrics.h"
#include "chief/end_deadline.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/cluster/security.h"
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

void Chief::AddMetrics() {
  options_.job.security->AddMetrics(&registry_);
  const ClusterSpec& cluster = options_.job.cluster;
  AddChiefMetrics(&registry_, cluster.count(Role::kWorker), cluster.count(Role::kPs), [this] {
    const auto coordinator = runner_->coordinator();
    return coordinator == nullptr ? std::nullopt : std::optional(coordinator->state());
  });
  AddStreamMetrics(&registry_, [this] { return runner_->stream(); });
}

std::string Chief::StatusText() const {
  const auto coordinator = runner_->coordinator();
  if (coordinator == nullptr) return activity() + "\n";
  const CoordinatorState s = coordinator->state();
  const v1::JobSpec& job = options_.job.job.spec;
  const uint64_t epochs = job.fit().epochs();
  const bool is_stream = job.data().visitation() == v1::STREAM;
  std::string text = fmt::format(
      "generation {}, timeline {}\n{} {}, step {}\n{} closures wait, {} in flight on {} "
      "workers\n",
      s.generation, s.timeline, is_stream ? "window" : "epoch",
      std::min<uint64_t>(s.epoch + 1, epochs), s.steps, s.queued, s.in_flight, s.ready_workers);
  for (size_t i = 0; i < s.workers.size(); ++i) {
    const WorkerFigures& w = s.workers[i];
    // One that had joined has left.
    if (i < s.worker_reports.size() && s.worker_reports[i].address.empty()) continue;
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
  const v1::JobSpec& job = options_.job.job.spec;
  const uint64_t epochs = job.fit().epochs();
  std::string text =
      job.data().visitation() == v1::STREAM
          ? fmt::format("window {}, step {}", s.epoch + 1, s.steps)
          : fmt::format("epoch {}/{}, step {}", std::min(s.epoch + 1, epochs), epochs, s.steps);
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
      log->Flush();  // what was logged before comes before the outcome
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
    log->Flush();
    _exit(code.value_or(ExitCodeOfSignal(signal)));
  }
}

}  // namespace cohort
