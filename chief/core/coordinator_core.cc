#include "chief/core/coordinator_core.h"

#include <algorithm>
#include <utility>

#include "chief/core/lost_task.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {

constexpr int64_t kSlowUs = 3'000'000;  // a cut takes a moment

CoordinatorCore::CoordinatorCore(CoreOptions options, CoreEffects* effects)
    : options_(std::move(options)),
      outbox_(effects),
      membership_(&options_, &outbox_),
      queue_(options_.queue_capacity),
      ids_(&outbox_),
      settlement_(&outbox_, options_.settle_interval_us, options_.test_faults),
      cut_(&options_, &outbox_),
      rollback_(&options_, &outbox_),
      workers_(options_.workers.size()),
      ps_(options_.ps.size()) {}

void CoordinatorCore::Tick(int64_t now_us) {
  if (now_us_ == 0) phase_since_us_ = now_us;
  now_us_ = std::max(now_us_, now_us);
  if (phase_ == Phase::kFailed || phase_ == Phase::kStopped) return;
  membership_.Tick(now_us_);
  journal_watch_.Tick(outbox_.next_record() - 1, durable_record_, now_us_);
  Advance();
  CheckPs();
  CheckCancel();
  CheckStragglers();
  CheckStranded();
  rollback_.Tick(now_us_);
  cut_.Tick(now_us_);
  AdvanceCut();
  if (!settle_held_) settlement_.Tick(now_us_);
  RefillAll(/*idle_only=*/false);
  TellStop();
}

void CoordinatorCore::OnConnected(Task task) {
  if (phase_ == Phase::kFailed || phase_ == Phase::kStopped) return;
  if (membership_.adopted(task)) OnDisconnected(task, "it was dialled again");
  membership_.OnConnected(task, now_us_);
}

void CoordinatorCore::OnDisconnected(Task task, const std::string& why) {
  const bool was_there = membership_.adopted(task);
  membership_.OnDisconnected(task, why, now_us_);
  if (!was_there || phase_ == Phase::kStopped || phase_ == Phase::kFailed) return;
  outbox_.effects()->Note("task_lost", fmt::format("{}: {}", membership_.Name(task), why));
  if (task.role == Role::kPs) {
    ps_[static_cast<size_t>(task.index)].down_since_us = now_us_;
    const absl::Status lost = LostTask("ps", task.index, membership_.member(task).incarnation,
                                       fmt::format("{} is lost: {}", membership_.Name(task), why));
    cut_.LoseServer(lost);
    rollback_.Fail(lost);
    return;
  }
  ++counters_.workers_lost;
  RequeueAll(task.index, /*lost=*/true);
  workers_[static_cast<size_t>(task.index)].ready = false;
  AdvanceCut();
  RefillAll(/*idle_only=*/false);
}

void CoordinatorCore::OnWorkerMessage(int worker, v1::WorkerToChief message) {
  const Task task = WorkerTask(worker);
  if (membership_.member(task).link == Link::kDown || phase_ == Phase::kFailed) return;
  membership_.OnHeard(task, now_us_);
  switch (message.body_case()) {
    case v1::WorkerToChief::kHello:
      OnWorkerHello(worker, message.request(), message.mutable_hello());
      return;
    case v1::WorkerToChief::kFenced:
      OnFenced(task, message.fenced());
      return;
    case v1::WorkerToChief::kResults: {
      if (!membership_.adopted(task)) return;
      Worker& w = workers_[static_cast<size_t>(worker)];
      if (!w.ready) {
        KeepForSetUp(worker, message.mutable_results());
        return;
      }
      if (now_us_ - w.progress_us < options_.closure_deadline_us) w.quick_us = now_us_;
      w.progress_us = now_us_;
      MoveReaders(worker, message.results().readers());
      for (v1::ClosureResult& result : *message.mutable_results()->mutable_results()) {
        OnResult(worker, &result);
      }
      AdvanceCut();
      Refill(worker);
      return;
    }
    case v1::WorkerToChief::kPsUnreachable: {
      const v1::PsUnreachable& report = message.ps_unreachable();
      if (report.ps() >= ps_.size() || !membership_.adopted(task)) return;
      const Task ps = PsTask(static_cast<int>(report.ps()));
      SendRoutes(worker);  // it may only have stale ones
      if (membership_.adopted(ps) && membership_.member(ps).incarnation == report.incarnation()) {
        Rest(worker, options_.set_aside_us,
             fmt::format("cannot reach {}: {}", membership_.Name(ps), report.error()));
      }
      return;
    }
    case v1::WorkerToChief::kPong:
      return;
    case v1::WorkerToChief::BODY_NOT_SET:
      break;
  }
  // The answer to a registration.
  if (setup_requests_.erase(message.request()) == 0) return;
  const absl::Status status = StatusFromProto(message.status());
  if (!status.ok()) Fail(Annotate(status, membership_.Name(task)));
}

void CoordinatorCore::OnPsMessage(int ps, const v1::PsToChief& message) {
  const Task task = PsTask(ps);
  if (membership_.member(task).link == Link::kDown || phase_ == Phase::kFailed) return;
  membership_.OnHeard(task, now_us_);
  if (message.has_hello()) {
    OnPsHello(ps, message.request(), message.hello());
    return;
  }
  if (message.has_fenced()) {
    OnFenced(task, message.fenced());
    return;
  }
  if (rollback_.OnPsMessage(ps, message)) {
    if (rollback_.TakeDone()) RolledBack();
    return;
  }
  if (cut_.OnPsMessage(ps, message, now_us_)) {
    if (cut_.TakeReleased()) RefillAll(/*idle_only=*/false);
  }
}

void CoordinatorCore::OnJournaled(uint64_t record) {
  if (phase_ == Phase::kFailed) return;
  durable_record_ = std::max(durable_record_, record);
  journal_watch_.OnDurable();
  if (phase_ == Phase::kStarting && record >= start_record_) {
    phase_ = Phase::kReady;
    for (size_t i = 0; i < workers_.size(); ++i) {
      const int worker = static_cast<int>(i);
      if (membership_.adopted(WorkerTask(worker))) SetUpWorker(worker);
    }
  }
  if (settlement_.OnJournaled(record)) Settled();
  if (rollback_.OnJournaled(record)) TimelineRaised();
  cut_.OnJournaled(record);
  if (ids_.OnJournaled(record)) RefillAll(/*idle_only=*/false);
  TellStop();
}

// Everyone, when the end is durable: in the journal, or, where the disk is full, in a manifest.
void CoordinatorCore::TellStop() {
  const bool proved = job_finished_ && finish_committed_ && journal_watch_.refused();
  if (stop_record_ == 0 || phase_ == Phase::kStopped || !(stop_journaled() || proved)) return;
  v1::ShutdownTask shutdown;
  shutdown.set_reason(stop_reason_);
  shutdown.set_job_finished(job_finished_);
  v1::ChiefToPs to_ps;
  v1::ChiefToWorker to_worker;
  *to_ps.mutable_shutdown() = shutdown;
  *to_worker.mutable_shutdown() = shutdown;
  for (size_t i = 0; i < workers_.size(); ++i) outbox_.ToWorker(static_cast<int>(i), to_worker);
  for (size_t i = 0; i < ps_.size(); ++i) outbox_.ToPs(static_cast<int>(i), to_ps);
  phase_ = Phase::kStopped;
}

bool CoordinatorCore::OnManifestWritten(uint64_t cut, const absl::Status& status,
                                        const std::string& path) {
  const bool taken = phase_ != Phase::kFailed && cut_.OnManifestWritten(cut, status, path);
  if (taken && cut_finished_) finish_committed_ = true;
  return taken;
}

int CoordinatorCore::AddProgram(std::string fingerprint, v1::Program program) {
  for (size_t i = 0; i < programs_.size(); ++i) {
    if (programs_[i].name == fingerprint) return static_cast<int>(i);
  }
  Named named{.name = fingerprint};
  named.message.mutable_program()->set_fingerprint(std::move(fingerprint));
  *named.message.mutable_program()->mutable_program() = std::move(program);
  programs_.push_back(std::move(named));
  for (size_t i = 0; i < workers_.size(); ++i) SendMissing(static_cast<int>(i));
  return static_cast<int>(programs_.size()) - 1;
}

int CoordinatorCore::AddResource(v1::CreateResource resource) {
  for (size_t i = 0; i < resources_.size(); ++i) {
    if (resources_[i].name == resource.name()) return static_cast<int>(i);
  }
  Named named{.name = resource.name()};
  *named.message.mutable_resource() = std::move(resource);
  resources_.push_back(std::move(named));
  for (size_t i = 0; i < workers_.size(); ++i) SendMissing(static_cast<int>(i));
  return static_cast<int>(resources_.size()) - 1;
}

absl::Status CoordinatorCore::EndEpoch() {
  if (settle_held_) {
    return FailedPrecondition("epoch {} is being rolled back: it cannot end", epoch_);
  }
  settlement_.Tick(now_us_, /*force=*/true);
  v1::JournalRecord record;
  record.mutable_epoch()->set_epoch(epoch_);
  MetricsToProto(settlement_.metrics(), record.mutable_epoch()->mutable_metrics());
  outbox_.Append(std::move(record));
  ++epoch_;
  settlement_.ClearMetrics();
  return absl::OkStatus();
}

uint64_t CoordinatorCore::Flush() {
  if (!settle_held_ && phase_ == Phase::kReady) settlement_.Tick(now_us_, /*force=*/true);
  return outbox_.next_record() - 1;
}

void CoordinatorCore::Stop(const std::string& reason, bool job_finished) {
  if (phase_ != Phase::kReady || stop_record_ != 0) return;
  stop_reason_ = reason;
  job_finished_ = job_finished;
  if (settle_held_ && !job_finished) {
    // Behind the record of a rollback, what was settled before it would count for what comes after.
    stop_record_ = outbox_.next_record() - 1;
    TellStop();
    return;
  }
  if (!settle_held_) settlement_.Tick(now_us_, /*force=*/true);
  v1::JournalRecord record;
  if (job_finished) {
    record.mutable_finished()->set_step(settlement_.steps());
  } else {
    v1::Settle* settle = record.mutable_settle();
    settle->set_watermark(settlement_.watermark());
    MetricsToProto(settlement_.metrics(), settle->mutable_metrics());
    settle->set_step(settlement_.steps());
  }
  stop_record_ = outbox_.Append(std::move(record));
}

absl::Status CoordinatorCore::TakeError() {
  if (phase_ == Phase::kFailed) return failure_;
  if (error_ready()) {
    cancel_since_us_ = -1;
    return queue_.TakeError();
  }
  return absl::OkStatus();
}

int CoordinatorCore::ready_workers() const {
  int n = 0;
  for (const Worker& w : workers_) n += w.ready && now_us_ >= w.rests_until_us ? 1 : 0;
  return n;
}

std::vector<WorkerFigures> CoordinatorCore::worker_figures() const {
  std::vector<WorkerFigures> figures;
  for (const Worker& w : workers_) {
    figures.push_back({w.steps, w.in_flight.size(),
                       w.in_flight.empty() ? 0 : std::max<int64_t>(0, now_us_ - w.progress_us)});
  }
  return figures;
}

std::string CoordinatorCore::WaitingFor() const {
  if (journal_watch_.refused()) return journal_watch_.Waiting();
  if (phase_ == Phase::kTaking || phase_ == Phase::kReading || phase_ == Phase::kStarting) {
    return "waiting for the journal";
  }
  const bool start = phase_ == Phase::kProbing || phase_ == Phase::kAdopting;
  if (start || !all_ps_there()) {
    const std::string missing = membership_.Missing(now_us_);
    return "waiting for " + (missing.empty() ? "the cluster" : missing);
  }
  if (rollback_.active()) return "waiting for the parameter servers to load their tablets";
  if (std::string text = WaitingForWorkers(); !text.empty()) return text;
  if (std::string text = WaitingForClosure(); !text.empty()) return text;
  if (cut_.holds_dispatch()) {
    if (std::string text = WaitingForCut(); !text.empty()) return text;
  }
  return journal_watch_.Waiting();
}

bool CoordinatorCore::Late(const Worker& worker) const {
  return !worker.in_flight.empty() && now_us_ - worker.progress_us >= options_.closure_deadline_us;
}

std::string CoordinatorCore::WaitingForWorkers() const {
  const bool none = queue_.size() > 0 && ready_workers() == 0;
  std::string text = none ? membership_.Missing(now_us_) : "";
  for (size_t i = 0; i < workers_.size(); ++i) {
    const Worker& w = workers_[i];
    std::string why;
    if (none && w.ready && now_us_ < w.rests_until_us) {
      why = "is set aside: " + w.rests_why;
    } else if (!none && w.ready && Late(w)) {
      why = fmt::format("has told no result for {} s of the {} closures that it has",
                        (now_us_ - w.progress_us) / 1'000'000, w.in_flight.size());
    }
    if (why.empty()) continue;
    text += fmt::format("{}{}, which {}", text.empty() ? "" : "; ",
                        membership_.Name(WorkerTask(static_cast<int>(i))), why);
  }
  if (none) return "waiting for a worker" + (text.empty() ? "" : ": " + text);
  return text.empty() ? "" : "waiting for " + text;
}

std::string CoordinatorCore::WaitingForCut() const {
  const int64_t us = now_us_ - cut_.since_us();
  if (!cut_active() || us < kSlowUs) return "";
  std::string servers;
  for (const int ps : cut_.Late()) {
    servers += fmt::format("{}{}", servers.empty() ? "" : ", ", membership_.Name(PsTask(ps)));
  }
  std::string what;
  switch (cut_.state()) {
    case Cut::State::kIdle:
      break;
    case Cut::State::kDraining:
      what = fmt::format("{} closures in flight to end", queue_.training_in_flight());
      break;
    case Cut::State::kSnapshotting:
      what = servers + " to take a snapshot";
      break;
    case Cut::State::kWriting:
      what = servers + " to write a snapshot";
      break;
    case Cut::State::kCommitting:
      what = "the storage to take its manifest";
      break;
    case Cut::State::kJournaling:
      what = "the journal to have it";
      break;
  }
  return fmt::format("waiting for checkpoint {}: {}, {} s", cut_.directory(), what, us / 1'000'000);
}

// Where all that waits is max_ids_ahead of one that is open.
std::string CoordinatorCore::WaitingForClosure() const {
  const uint64_t open = settlement_.watermark();
  const uint64_t next = queue_.Next();
  if (next == 0 || next < open + options_.max_ids_ahead) return "";
  const Closure* const c = queue_.Find(open);
  if (c == nullptr) {
    const auto place = unfinished_.PlaceOf(open);
    return fmt::format("waiting for closure {}{}, which has to be scheduled again", open,
                       place.has_value() ? fmt::format(" (place {})", *place) : "");
  }
  const std::string where = c->state == Closure::State::kInFlight
                                ? membership_.Name(WorkerTask(c->worker)) + " has"
                                : "no worker has taken";
  return fmt::format("waiting for closure {} (place {}), which {}", open, c->place, where);
}

}  // namespace cohort
