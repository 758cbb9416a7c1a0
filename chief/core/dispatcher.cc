#include "chief/core/dispatcher.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/graph/program_proto.h"
#include "common/metrics/metric_proto.h"

namespace cohort {

Dispatcher::Dispatcher(Parts parts)
    : parts_(std::move(parts)),
      context_(parts_.context),
      queue_(&parts_.closures->queue()),
      pace_(context_, queue_, parts_.setup),
      workers_(context_->options.workers.size()) {}

void Dispatcher::Tick() {
  CheckCancel();
  CheckLate();
  WakeAll();
}

void Dispatcher::OnScheduled(uint64_t id) {
  const Closure* const c = queue_->Find(id);
  if (c == nullptr) return;
  if (c->state == Closure::State::kQueued) {
    wake_idle_ = true;
    return;
  }
  parts_.steps->Enter(queue_->Find(id));
  if (queue_->InFlightOn(c->worker).size() == 1) {
    pace_.OnFirstWork(c->worker);
  }
}

void Dispatcher::Fail(absl::Status error) {
  if (context_->phase == CorePhase::kFailed || !parts_.closures->Raise(std::move(error))) return;
  parts_.steps->Abandon();
  for (int i = 0; i < count(); ++i) {
    workers_[static_cast<size_t>(i)].dropped = false;
    Cancel(i, parts_.closures->ClosuresOn(i));
  }
}

// ------------------------------------------------------------------ results

bool Dispatcher::OnResults(int worker,
                           google::protobuf::RepeatedPtrField<v1::ClosureResult>* results) {
  // A worker that never ends a step gives back the others all the same.
  const bool ran = std::any_of(results->begin(), results->end(),
                               [](const v1::ClosureResult& r) { return !r.not_started(); });
  if (ran) pace_.OnResults(worker);
  bool gave_back = false;
  for (v1::ClosureResult& result : *results) gave_back |= OnResult(worker, &result);
  Wake(worker);
  return gave_back;
}

// A success with metrics that cannot be folded counts as a failure.
void Dispatcher::CheckMetrics(int worker, v1::ClosureResult* result) const {
  absl::Status status = CheckMetricValues(result->metrics());
  if (status.ok()) return;
  status =
      Annotate(std::move(status), fmt::format("closure {} of {}", result->id(),
                                              TaskName(context_->options, WorkerTask(worker))));
  StatusToProto(status, result->mutable_status());
}

// A success of any attempt ends the closure: every tablet has it. A failure counts only for the
// current attempt.
bool Dispatcher::IsWanted(const Closure& c, int worker, const v1::ClosureResult& result, bool ok) {
  if (result.attempt() < c.min_attempt || result.attempt() > c.attempt) return false;
  return ok || (c.state == Closure::State::kInFlight && c.worker == worker &&
                c.held_attempt == result.attempt());
}

bool Dispatcher::OnResult(int worker, v1::ClosureResult* result) {
  OpenClosures& closures = *parts_.closures;
  CheckMetrics(worker, result);
  const absl::Status status = StatusFromProto(result->status());
  Closure* const c = queue_->Find(result->id());
  if (c == nullptr ? !closures.FinishUnfinished(result)
                   : !IsWanted(*c, worker, *result, status.ok())) {
    ++counters_.late_results;
    return false;
  }
  if (c == nullptr) return false;
  if (status.ok()) {
    if (c->spec.training && (parts_.steps->sync() || result->dropped())) {
      return OnStaged(worker, c, result);
    }
    if (c->state == Closure::State::kInFlight && c->worker != worker) Cancel(c->worker, {c->id});
    pace_.OnSuccess(worker);
    Count(worker, *result);
    parts_.steps->OnEnded(*c);
    closures.Finish(c->id, result);
    return false;
  }
  if (closures.failed()) {
    closures.Cancel(c->id);
    return false;
  }
  if (result->not_started()) {
    queue_->TakeBack(c);
    if (queue_->InFlightOn(worker).empty()) pace_.OnWorkReturned(worker);
    return false;
  }
  if (IsRetryable(status) || absl::IsCancelled(status) || absl::IsAborted(status)) {
    GiveBack(c, status);
    return true;
  }
  closures.EndFailed(c->id, status);
  Fail(status);
  return false;
}

// Sync mode. All tablets have staged the closure's push, or an older step or try has dropped it.
bool Dispatcher::OnStaged(int worker, Closure* c, v1::ClosureResult* result) {
  if (c->state == Closure::State::kHeard) return false;
  if (result->dropped() || !c->step.sync() || c->state != Closure::State::kInFlight) {
    if (c->state != Closure::State::kInFlight || c->worker != worker ||
        c->held_attempt != result->attempt()) {
      return false;
    }
    if (parts_.closures->failed()) {
      parts_.closures->Cancel(c->id);
      return false;
    }
    if (c->step.sync() && c->ring_places > 0) {
      RepeatStep(fmt::format("a server has dropped closure {}", c->id));
      return false;
    }
    if (absl::Status limit = parts_.closures->Requeue(c); !limit.ok()) Fail(std::move(limit));
    return false;
  }
  CancelCopies(*c, worker);
  pace_.OnSuccess(worker);
  Count(worker, *result);
  parts_.steps->OnHeard(c, result);
  return false;
}

// Another worker has finished the closure.
void Dispatcher::CancelCopies(const Closure& c, int except) {
  if (c.worker != except) Cancel(c.worker, {c.id});
  if (c.copy_worker < 0) return;
  workers_[static_cast<size_t>(c.copy_worker)].copy = 0;
  if (c.copy_worker != except) Cancel(c.copy_worker, {c.id});
}

void Dispatcher::GiveBack(Closure* c, const absl::Status& why) {
  const uint64_t id = c->id;
  const int worker = c->worker;
  const auto info = GetFailure(why);
  const uint32_t times = ++c->give_backs;
  const bool in_ring = c->step.sync() && c->ring_places > 0;
  // An error ends the closure: `c` must not be used after this.
  if (absl::Status limit = parts_.closures->Requeue(c); !limit.ok()) Fail(std::move(limit));
  const bool cannot_reach = info.has_value() && info->role == "ps";
  const bool is_ending = info.has_value() && info->role == "worker" && info->index == worker &&
                         why.code() == absl::StatusCode::kUnavailable;
  if (times > context_->options.max_give_backs) {
    Fail(Annotate(absl::Status(absl::StatusCode::kUnavailable, why.message()),
                  fmt::format("closure {} was given back {} times, the last time by {}", id, times,
                              TaskName(context_->options, WorkerTask(worker)))));
  }
  if (cannot_reach || is_ending || times % 4 == 0) SetAside(worker, std::string(why.message()));
  if (in_ring) RepeatStep(std::string(why.message()));
}

void Dispatcher::RepeatStep(const std::string& why) {
  if (parts_.closures->failed()) return;
  parts_.outbox->effects()->Note("step_repeated", why);
  for (int i = 0; i < count(); ++i) {
    std::vector<uint64_t> cancel;
    const std::deque<uint64_t> ids = queue_->InFlightOn(i);
    for (const uint64_t id : ids) {
      Closure* const c = queue_->Find(id);
      if (!c->step.sync()) continue;
      c->min_attempt = c->attempt + 1;
      cancel.push_back(id);
      absl::Status limit = parts_.closures->Requeue(c);
      if (!limit.ok()) return Fail(std::move(limit));
    }
    Cancel(i, cancel);
  }
  parts_.steps->Abandon();
  WakeAll();
}

// ------------------------------------------------------------------ returned and lost workers

void Dispatcher::OnReturned(int worker, v1::WorkerHello* hello) {
  pace_.Restart(worker);
  if (context_->timeline > 0 && hello->timeline() != context_->timeline) {
    v1::ChiefToWorker cancel;
    cancel.mutable_cancel()->set_all_training(true);
    cancel.mutable_cancel()->set_timeline(context_->timeline);
    parts_.outbox->ToWorker(worker, std::move(cancel));
  }
  for (v1::ClosureResult& result : *hello->mutable_results()) OnResult(worker, &result);
  ClaimInHand(worker, *hello);
  Wake(worker);
}

void Dispatcher::ClaimInHand(int worker, const v1::WorkerHello& hello) {
  std::vector<uint64_t> unwanted;
  for (const v1::ClosureAttempt& hand : hello.in_hand()) {
    if (parts_.closures->failed()) {
      // The error waits until the worker has given the closure up, but only once. If the worker was
      // dropped because of this closure, it may run forever.
      if (!workers_[static_cast<size_t>(worker)].dropped) {
        parts_.closures->unfinished().Hold(hand.id(), worker, hand.attempt());
      }
      unwanted.push_back(hand.id());
    } else if (!MayClaim(worker, hand.id()) ||
               !parts_.closures->Claim(hand.id(), worker, hand.attempt())) {
      unwanted.push_back(hand.id());
    } else if (Closure* const c = queue_->Find(hand.id()); c != nullptr) {
      parts_.steps->Enter(c);
    }
  }
  Cancel(worker, unwanted);
}

// A closure that enters a step whose gradients are summed in a ring is dispatched again, because
// its worker has to know how many it gets.
bool Dispatcher::MayClaim(int worker, uint64_t id) const {
  if (pace_.fenced(worker)) return false;
  const Closure* const c = queue_->Find(id);
  return !context_->options.ring || !parts_.steps->sync() || (c != nullptr && c->step.sync()) ||
         (c != nullptr && !c->spec.training);
}

void Dispatcher::OnLost(int worker) {
  const uint64_t copy = std::exchange(workers_[static_cast<size_t>(worker)].copy, 0);
  if (Closure* const c = queue_->Find(copy); c != nullptr && c->copy_worker == worker) {
    c->copy_worker = -1;
  }
  TakeFrom(worker, /*lost=*/true);
}

// Returns true if there is an error. A closure of the worker that has reached a limit raises one.
bool Dispatcher::FailAtLimit(int worker) {
  for (const uint64_t id : queue_->InFlightOn(worker)) {
    absl::Status limit = parts_.closures->CheckLimits(*queue_->Find(id));
    if (limit.ok()) continue;
    Fail(std::move(limit));
    break;
  }
  return parts_.closures->failed();
}

void Dispatcher::TakeFrom(int worker, bool lost) {
  // After an error a connected worker may still run a closure. Its closures stay in flight or held
  // until it has given them up or is lost.
  if (!lost && FailAtLimit(worker)) return;
  const std::vector<uint64_t> cancel = parts_.closures->ClosuresOn(worker);
  const std::deque<uint64_t> ids = queue_->InFlightOn(worker);
  bool in_ring = false;
  for (size_t i = 0; i < ids.size(); ++i) {
    Closure* const c = queue_->Find(ids[i]);
    in_ring |= c->step.sync() && c->ring_places > 0;
    // A worker runs its closures in order: only the first can have killed it.
    if (lost && i == 0) c->killed.push_back(WorkerTask(worker));
    if (parts_.closures->failed()) {
      parts_.closures->Cancel(ids[i]);
    } else if (absl::Status limit = parts_.closures->Requeue(c); !limit.ok()) {
      Fail(std::move(limit));
    }
  }
  if (!lost) Cancel(worker, cancel);
  parts_.closures->unfinished().Release(worker);
  WakeAll();
  // A worker whose stream is lost may come back with its part of the sum.
  if (!lost && in_ring) {
    RepeatStep(TaskName(context_->options, WorkerTask(worker)) + " has given back its closures");
  }
}

void Dispatcher::SetAside(int worker, const std::string& why) {
  if (pace_.SetAside(worker, context_->options.set_aside_us, why)) AfterSetAside(worker, why);
}

void Dispatcher::AfterSetAside(int worker, const std::string& why) {
  parts_.outbox->effects()->Note(
      "worker_set_aside",
      fmt::format("{}: {}", TaskName(context_->options, WorkerTask(worker)), why));
  TakeFrom(worker, /*lost=*/false);
}

void Dispatcher::SetFenced(int worker, bool fenced) {
  if (!pace_.SetFenced(worker, fenced)) return;
  parts_.outbox->effects()->Note(fenced ? "worker_fenced" : "worker_unfenced",
                                 TaskName(context_->options, WorkerTask(worker)));
  fenced ? TakeFrom(worker, /*lost=*/false) : Wake(worker);
}

void Dispatcher::Cancel(int worker, const std::vector<uint64_t>& ids) {
  if (ids.empty() || !parts_.membership->adopted(WorkerTask(worker))) return;
  v1::ChiefToWorker message;
  message.mutable_cancel()->mutable_ids()->Add(ids.begin(), ids.end());
  message.mutable_cancel()->set_timeline(context_->timeline);
  parts_.outbox->ToWorker(worker, std::move(message));
}

void Dispatcher::Recall() {
  for (int i = 0; i < count(); ++i) {
    v1::ChiefToWorker message;
    v1::CancelClosures* const cancel = message.mutable_cancel();
    for (const uint64_t id : queue_->InFlightOn(i)) {
      Closure* const c = queue_->Find(id);
      if (!c->spec.training || !parts_.closures->CheckLimits(*c).ok()) continue;
      if (std::exchange(c->recalled, true)) continue;
      cancel->add_ids(id);
    }
    if (cancel->ids().empty()) continue;
    cancel->set_queued_only(true);
    cancel->set_timeline(context_->timeline);
    parts_.outbox->ToWorker(i, std::move(message));
  }
}

void Dispatcher::CancelOlderTimelines() {
  for (int i = 0; i < count(); ++i) {
    if (!parts_.setup->ready(i)) continue;
    const std::deque<uint64_t>& ids = queue_->InFlightOn(i);
    v1::ChiefToWorker message;
    v1::CancelClosures* const cancel = message.mutable_cancel();
    cancel->mutable_ids()->Add(ids.begin(), ids.end());
    cancel->set_all_training(true);
    cancel->set_timeline(context_->timeline);
    parts_.outbox->ToWorker(i, std::move(message));
  }
}

// ------------------------------------------------------------------ deadlines

void Dispatcher::CheckCancel() {
  if (!parts_.error->CancelOverdue()) return;
  for (int i = 0; i < count(); ++i) {
    if (parts_.closures->ClosuresOn(i).empty()) continue;
    workers_[static_cast<size_t>(i)].dropped = true;
    parts_.outbox->effects()->Reconnect(WorkerTask(i), "it did not give up its closures in time");
  }
}

// A worker can answer pings and never end a step, for example because its device hangs. If no other
// worker can take its work, it keeps the work, because the step may only be long. If the user has
// set the closure timeout, the job ends instead.
void Dispatcher::CheckLate() {
  for (int i = 0; i < count(); ++i) {
    if (!pace_.late(i) || pace_.is_set_aside(i)) continue;
    if (!pace_.HasQuicker(i)) {
      EndForLate(i);
      continue;
    }
    const std::string why = pace_.Silence(i);
    if (pace_.SetLateAside(i)) AfterSetAside(i, why);
  }
}

void Dispatcher::EndForLate(int worker) {
  if (!context_->options.closure_timeout_ends_job || parts_.closures->failed()) return;
  const std::optional<std::string> others = pace_.OthersWithoutProgress(worker);
  if (!others.has_value()) return;
  const std::deque<uint64_t>& ids = queue_->InFlightOn(worker);
  const Task task = WorkerTask(worker);
  absl::Status error = Unavailable(
      "{} has reported {}, the oldest of which is closure {}, and no other worker can take "
      "them{}: closure_timeout_s is {} s",
      TaskName(context_->options, task), pace_.Silence(worker),
      *std::min_element(ids.begin(), ids.end()),
      others->empty() ? "" : " (these make no progress either: " + *others + ")",
      context_->options.closure_timeout_s);
  SetFailure(&error, {.role = "worker",
                      .index = worker,
                      .incarnation = parts_.membership->member(task).incarnation,
                      .retryable = false});
  Fail(std::move(error));
}

// ------------------------------------------------------------------ dispatch

void Dispatcher::FillDispatch(const Closure& closure, v1::Closure* out) const {
  const ClosureSpec& spec = closure.spec;
  out->set_id(closure.id);
  out->set_attempt(closure.attempt);
  out->set_place(closure.place);
  out->set_timeline(context_->timeline);
  out->set_program(parts_.setup->program_name(spec.step.program));
  out->set_steps(spec.steps);
  out->set_training(spec.training);
  if (const int resource = spec.dataset.resource; resource >= 0) {
    out->set_resource(parts_.setup->resource_name(resource));
  }
  for (const LeaseRange& lease : spec.leases) LeaseToProto(lease, out->add_leases());
  for (const Tensor& argument : spec.arguments) TensorToProto(argument, out->add_arguments());
  if (closure.step.sync()) {
    closure.step.ToProto(out->mutable_step());
    out->set_loss_scale(parts_.steps->open().loss_scale());
    out->set_ring_places(closure.ring_places);
  }
  out->set_iteration_offset(parts_.steps->mode().iteration_offset());
}

Closure* Dispatcher::NextFor(int worker, const DispatchGate& gate) {
  const Closure* const next = queue_->NextTraining();
  const int owner = next == nullptr ? -1 : parts_.steps->open().WorkerOf(*next);
  const bool training = gate.training && next != nullptr && parts_.steps->Admits(*next) &&
                        (owner < 0 || owner == worker);
  Closure* const c = queue_->Dispatch(worker, training, gate.ids_end, parts_.steps->AdmitsOthers());
  if (c != nullptr && c->spec.training) parts_.steps->Enter(c);
  return c;
}

bool Dispatcher::MayCopyTo(int worker) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  // The closure that it copied may have ended otherwise, for example by a rollback.
  const Closure* const copied = queue_->Find(w.copy);
  if (copied != nullptr && copied->copy_worker == worker) return false;
  w.copy = 0;
  return queue_->InFlightOn(worker).empty() && pace_.available(worker);
}

void Dispatcher::CopyTo(int worker, Closure* closure) {
  closure->copy_worker = worker;
  workers_[static_cast<size_t>(worker)].copy = closure->id;
  ++closure->attempt;
  v1::ChiefToWorker message;
  v1::Dispatch* const dispatch = message.mutable_dispatch();
  FillDispatch(*closure, dispatch->add_closures());
  dispatch->mutable_closures(0)->set_speculative(true);
  dispatch->set_settled_watermark(parts_.settlement->durable_watermark());
  ++counters_.dispatch_messages;
  parts_.outbox->ToWorker(worker, std::move(message));
}

void Dispatcher::CopyToIdle() {
  int idle = 0;
  for (int other = 0; other < count(); ++other) {
    for (const uint64_t id : queue_->InFlightOn(other)) {
      Closure* const c = queue_->Find(id);
      if (!c->step.sync() || c->copy_worker >= 0 || !parts_.closures->CheckLimits(*c).ok())
        continue;
      while (idle < count() && !MayCopyTo(idle)) ++idle;
      if (idle == count()) return;
      CopyTo(idle, c);
    }
  }
}

Dispatcher::Budget Dispatcher::MakeBudget() const {
  const size_t available = static_cast<size_t>(std::max(1, pace_.count_available()));
  return {.gate = parts_.gate(),
          .available = available,
          .most = std::min(std::max<size_t>(1, context_->options.closures_in_flight),
                           parts_.steps->mode().ShareOf(available))};
}

bool Dispatcher::CanDispatch(const DispatchGate& gate) const {
  if (!gate.open || parts_.closures->failed()) return false;
  const Closure* const next = queue_->NextTraining();
  const bool training = gate.training && next != nullptr && parts_.steps->Admits(*next);
  const uint64_t id = queue_->Next(training, parts_.steps->AdmitsOthers());
  return id != 0 && id < gate.ids_end;
}

void Dispatcher::Advance() {
  const bool woken = wake_all_ || wake_idle_ || !woken_.empty();
  if (workers_.empty() || (!woken && !held_)) return;
  const std::vector<int> workers = std::exchange(woken_, {});
  const bool idle = std::exchange(wake_idle_, false);
  const bool all = std::exchange(wake_all_, false);
  if (queue_->queued() > 0) {
    const Budget budget = MakeBudget();
    if (CanDispatch(budget.gate)) {
      for (const int worker : workers) Refill(worker, budget);
      if (all || held_) {
        RefillAll(/*idle_only=*/false, budget);
      } else if (idle && (queue_->idle_workers() > 0 || context_->options.ring)) {
        RefillAll(/*idle_only=*/true, budget);
      }
    }
    held_ = queue_->queued() > 0 && !CanDispatch(budget.gate);
  } else {
    held_ = false;
  }
  const bool copies = parts_.steps->mode().settings().backup_work == BackupWork::kSpeculative;
  if (copies && woken && parts_.gate().open) CopyToIdle();
}

void Dispatcher::Refill(int worker, const Budget& budget) {
  if (!pace_.available(worker) || queue_->queued() == 0) return;
  const size_t has = queue_->InFlightOn(worker).size();
  if (has > budget.most / 2) return;
  const size_t open = queue_->queued() + queue_->in_flight();
  const size_t share = (open + budget.available - 1) / budget.available;
  if (has < share) Send(worker, std::min(budget.most, share) - has, budget.gate);
}

size_t Dispatcher::Send(int worker, size_t most, const DispatchGate& gate) {
  const bool had_none = queue_->InFlightOn(worker).empty();
  v1::ChiefToWorker message;
  v1::Dispatch* const dispatch = message.mutable_dispatch();
  for (size_t i = 0; i < most; ++i) {
    const Closure* const c = NextFor(worker, gate);
    if (c == nullptr) break;
    FillDispatch(*c, dispatch->add_closures());
  }
  const auto sent = static_cast<size_t>(dispatch->closures_size());
  if (sent == 0) return 0;
  if (had_none) pace_.OnFirstWork(worker);
  dispatch->set_settled_watermark(parts_.settlement->durable_watermark());
  ++counters_.dispatch_messages;
  parts_.outbox->ToWorker(worker, std::move(message));
  return sent;
}

// The whole part of a worker at once: a worker that lacks a closure delays all others.
void Dispatcher::RefillRing(const DispatchGate& gate) {
  while (!parts_.closures->failed()) {
    const Closure* const next = queue_->NextTraining();
    if (!gate.training || next == nullptr) return;
    const int worker = parts_.steps->open().WorkerOf(*next);
    if (worker < 0 || !pace_.available(worker) || !parts_.steps->Admits(*next)) return;
    if (Send(worker, SIZE_MAX, gate) == 0) return;
  }
}

void Dispatcher::RefillAll(bool idle_only, const Budget& budget) {
  if (context_->options.ring) RefillRing(budget.gate);
  for (int i = 0; i < count() && queue_->queued() > 0; ++i) {
    const int worker = (next_idle_ + i) % count();
    if (idle_only && !queue_->InFlightOn(worker).empty()) continue;
    Refill(worker, budget);
  }
  next_idle_ = (next_idle_ + 1) % count();
}

void Dispatcher::PublishWatermark() {
  v1::ChiefToWorker message;
  message.mutable_dispatch()->set_settled_watermark(parts_.settlement->durable_watermark());
  for (int i = 0; i < count(); ++i) {
    if (parts_.setup->ready(i) && queue_->InFlightOn(i).empty()) {
      parts_.outbox->ToWorker(i, message);
    }
  }
}

void Dispatcher::Count(int worker, const v1::ClosureResult& result) {
  WorkerFigures& figures = workers_[static_cast<size_t>(worker)].figures;
  figures.steps += result.steps();
  ++figures.closures;
  figures.applied += result.applied();
  figures.sum_staleness += result.sum_staleness();
}

std::vector<WorkerFigures> Dispatcher::worker_figures() const {
  std::vector<WorkerFigures> figures;
  for (int i = 0; i < count(); ++i) {
    WorkerFigures& figure = figures.emplace_back(workers_[static_cast<size_t>(i)].figures);
    figure.in_flight = queue_->InFlightOn(i).size();
    figure.fenced = pace_.fenced(i);
    figure.silent_seconds = static_cast<double>(pace_.silent_us(i)) / 1e6;
  }
  return figures;
}

}  // namespace cohort
