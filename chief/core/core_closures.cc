// The part of CoordinatorCore that schedules closures, hands them out, and takes their results.
#include <algorithm>
#include <optional>
#include <utility>

#include "chief/core/coordinator_core.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {
namespace {

absl::Status CancelledByError(const absl::Status& error) {
  return Aborted("cancelled because of an earlier error; schedule it again: {}",
                 std::string_view(error.message().data(), error.message().size()));
}

}  // namespace

absl::StatusOr<uint64_t> CoordinatorCore::Schedule(ClosureSpec spec) {
  if (absl::Status error = TakeError(); !error.ok()) return error;
  if (queue_.failed()) return FailedPrecondition("an error is about to be raised");
  if (phase_ != Phase::kReady || !served_ || rollback_.active()) {
    return FailedPrecondition("the variables are not served: {}",
                              have_layout_
                                  ? "a parameter server was lost; restore a checkpoint first"
                                  : "create them first");
  }
  if (spec.program < 0 || static_cast<size_t>(spec.program) >= programs_.size() ||
      spec.resource >= static_cast<int>(resources_.size()) || spec.steps == 0) {
    return InvalidArgument("a closure of program {}, resource {}, {} steps: there is no such thing",
                           spec.program, spec.resource, spec.steps);
  }
  if (!has_room(spec)) return ResourceExhausted("the queue of closures is full");

  auto closure = std::make_unique<Closure>();
  closure->spec = std::move(spec);
  ClosureSpec& s = closure->spec;
  ++counters_.scheduled;
  const bool placed = s.by_job && s.training;
  if (!placed) s.by_job = false;
  std::optional<UnfinishedClosures::Entry> known;
  if (placed) {
    if (auto result = unfinished_.TakeEarly(s.place)) {
      const uint64_t id = result->id();  // the result may be moved out of
      outbox_.effects()->ClosureDone(s.token, absl::OkStatus(), &*result);
      return id;
    }
    COHORT_ASSIGN_OR_RETURN(known, TakeUp(s));
  }
  if (known.has_value()) {
    closure->id = known->closure.id;
    closure->fresh = false;
    closure->attempt = known->attempt;
    closure->min_attempt = known->min_attempt;
  } else {
    if (s.training && !placed) s.place = next_place_;
    closure->id = ids_.Next(
        {.by_job = placed, .place = s.place, .steps = s.steps, .places_end = s.places_end});
    for (const auto& [begin, end] : ids_.TakeGivenUp()) settlement_.Close(begin, end);
    closure->attempt = AttemptBase(era_);
    closure->min_attempt = closure->attempt + 1;
    if (s.training) next_place_ = std::max(next_place_, s.place + s.steps);
  }
  closure->place = s.place;
  const uint64_t id = closure->id;
  if (known.has_value() && known->holder >= 0) {
    queue_.AddInFlight(std::move(closure), known->holder, known->held_attempt);
    Worker& w = workers_[static_cast<size_t>(known->holder)];
    if (w.in_flight.empty()) w.progress_us = now_us_;
    w.in_flight.push_back(id);
  } else {
    queue_.Add(std::move(closure));
    RefillAll(/*idle_only=*/true);
  }
  return id;
}

// The unfinished closure of a place that is scheduled, where there is one.
absl::StatusOr<std::optional<UnfinishedClosures::Entry>> CoordinatorCore::TakeUp(
    const ClosureSpec& spec) {
  const UnfinishedClosures::Entry* const entry = unfinished_.Find(spec.place);
  if (entry == nullptr) return std::nullopt;
  const UnfinishedClosure& closure = entry->closure;
  if (closure.steps != spec.steps) {
    return Internal("closure {} of place {} has {} steps, not {}", closure.id, closure.place,
                    closure.steps, spec.steps);
  }
  if (entry->holder < 0) {
    COHORT_RETURN_IF_ERROR(CheckAttempt(closure.id, closure.place, entry->attempt));
  }
  return unfinished_.Take(spec.place);
}

// ------------------------------------------------------------------ results

bool CoordinatorCore::Wanted(const Closure& c, int worker, const v1::ClosureResult& result,
                             bool ok) const {
  if (result.attempt() < c.min_attempt || result.attempt() > c.attempt) return false;
  // Any attempt that came through ends the closure: every tablet has it. A failure only says
  // something about the attempt that is under way.
  return ok || (c.state == Closure::State::kInFlight && c.worker == worker &&
                c.held_attempt == result.attempt());
}

void CoordinatorCore::OnResult(int worker, v1::ClosureResult* result) {
  const absl::Status status = StatusFromProto(result->status());
  Closure* c = queue_.Find(result->id());
  if (c == nullptr) {
    OnUnfinishedResult(result);
    return;
  }
  if (!Wanted(*c, worker, *result, status.ok())) {
    ++counters_.late_results;
    return;
  }
  if (c->state == Closure::State::kInFlight) {
    if (c->worker != worker) CancelOn(c->worker, {c->id});
    ForgetInFlight(c->worker, c->id);
  }
  if (status.ok()) {
    workers_[static_cast<size_t>(worker)].stuck = 0;
    workers_[static_cast<size_t>(worker)].steps += result->steps();
    const std::unique_ptr<Closure> done = queue_.Remove(result->id());
    Finish(done->id, result);
    if (!done->spec.training) {
      settlement_.Finish(done->id, false, *result);
    } else if (settlement_.Finish(done->id, true, *result)) {
      counters_.steps += result->steps();
    }
    outbox_.effects()->ClosureDone(done->spec.token, status, result);
    return;
  }
  if (queue_.failed()) {
    CancelFor(queue_.Remove(c->id), CancelledByError(queue_.error()));
  } else if (IsRetryable(status) || absl::IsCancelled(status) || absl::IsAborted(status)) {
    GiveBack(c, status);
  } else {
    const std::unique_ptr<Closure> failed = queue_.Remove(c->id);
    outbox_.effects()->ClosureDone(failed->spec.token, status, nullptr);
    if (failed->spec.by_job) {
      LeaveUnfinished(*failed);
    } else {
      settlement_.Close(failed->id, failed->id + 1);
    }
    Fail(status);
  }
}

void CoordinatorCore::OnUnfinishedResult(v1::ClosureResult* result) {
  switch (unfinished_.OnResult(*result)) {
    case UnfinishedClosures::Told::kNothing:
      ++counters_.late_results;
      return;
    case UnfinishedClosures::Told::kFailed:
      return;
    case UnfinishedClosures::Told::kFinished:
      Finish(result->id(), result);
      if (settlement_.Finish(result->id(), true, *result)) counters_.steps += result->steps();
      return;
  }
}

void CoordinatorCore::Finish(uint64_t id, v1::ClosureResult* result) {
  ++counters_.finished;
  counters_.applied += result->applied();
  counters_.duplicates += result->duplicates();
  counters_.examples += result->examples();
  counters_.max_staleness = std::max(counters_.max_staleness, result->max_staleness());
  if (result->mixed()) {
    ++counters_.mixed;
    outbox_.effects()->Note("closure_mixed", fmt::format("id={}", id));
  }
}

// Whether a closure that was given out under this attempt may be given out again.
absl::Status CoordinatorCore::CheckAttempt(uint64_t id, uint64_t place, uint32_t attempt) const {
  if (attempt < AttemptBase(era_) + kAttemptsPerEra) return absl::OkStatus();
  return Unavailable(
      "closure {} (place {}) was given out {} times, and no worker has brought it to an end; a "
      "chief that is started again tries it again",
      id, place, kAttemptsPerEra);
}

absl::Status CoordinatorCore::CheckLimits(const Closure& c) const {
  if (c.killed.size() >= options_.max_attempts) {
    std::string names;
    for (const Task& t : c.killed) names += (names.empty() ? "" : ", ") + t.ToString();
    return Aborted("closure {} (place {}) killed every worker that it touched: {}", c.id, c.place,
                   names);
  }
  return CheckAttempt(c.id, c.place, c.attempt);
}

// Back into the line, or, at a limit, the job's error, which ends the closure.
void CoordinatorCore::Requeue(Closure* c) {
  absl::Status limit = CheckLimits(*c);
  queue_.Requeue(c);
  ++counters_.requeued;
  if (!limit.ok()) Fail(std::move(limit));
}

void CoordinatorCore::GiveBack(Closure* c, const absl::Status& why) {
  const uint64_t id = c->id;
  const int worker = c->worker;
  const auto info = GetFailure(why);
  const uint32_t times = ++c->give_backs;
  Requeue(c);
  c = nullptr;         // which an error has ended
  SendRoutes(worker);  // it may only have stale ones
  const bool cannot_reach = info.has_value() && info->role == "ps";
  const bool is_ending =
      info.has_value() && info->role == "worker" && why.code() == absl::StatusCode::kUnavailable;
  if (times > options_.max_give_backs) {
    Fail(Annotate(absl::Status(absl::StatusCode::kUnavailable, why.message()),
                  fmt::format("closure {} was given back {} times, the last time by {}", id, times,
                              membership_.Name(WorkerTask(worker)))));
  }
  if (cannot_reach || is_ending || times % 4 == 0) {
    Rest(worker, options_.set_aside_us, std::string(why.message()));
  }
}

void CoordinatorCore::CancelFor(std::unique_ptr<Closure> closure, const absl::Status& status) {
  outbox_.effects()->ClosureDone(closure->spec.token, status, nullptr);
  if (closure->spec.by_job) {
    LeaveUnfinished(*closure);
  } else {
    settlement_.Close(closure->id, closure->id + 1);
  }
}

void CoordinatorCore::LeaveUnfinished(const Closure& closure) {
  unfinished_.Add(
      {.closure = {.id = closure.id, .place = closure.place, .steps = closure.spec.steps},
       .attempt = closure.attempt,
       .min_attempt = closure.min_attempt});
}

void CoordinatorCore::ForgetInFlight(int worker, uint64_t id) {
  auto& ids = workers_[static_cast<size_t>(worker)].in_flight;
  const auto found = std::find(ids.begin(), ids.end(), id);
  if (found != ids.end()) ids.erase(found);
}

// ------------------------------------------------------------------ workers that fall out

// Whether there is an error, or one of the worker's closures is at a limit, which makes it one.
bool CoordinatorCore::EndAtLimit(int worker) {
  for (const uint64_t id : workers_[static_cast<size_t>(worker)].in_flight) {
    const Closure* const c = queue_.Find(id);
    if (c == nullptr || c->state != Closure::State::kInFlight || c->worker != worker) continue;
    absl::Status limit = CheckLimits(*c);
    if (limit.ok()) continue;
    Fail(std::move(limit));
    break;
  }
  return queue_.failed();
}

void CoordinatorCore::RequeueAll(int worker, bool lost) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  if (!lost && EndAtLimit(worker)) {
    // It may be in the middle of one: they stay in flight, and what it holds held, until it has
    // given them up, or is lost.
    return;
  }
  const std::deque<uint64_t> ids = std::exchange(w.in_flight, {});
  const Task task = WorkerTask(worker);
  bool first = true;
  std::vector<uint64_t> cancel = unfinished_.HeldBy(worker);
  for (const uint64_t id : ids) {
    Closure* c = queue_.Find(id);
    if (c == nullptr || c->state != Closure::State::kInFlight || c->worker != worker) continue;
    // A worker runs its closures in order: only the first can have killed it.
    if (lost && std::exchange(first, false)) c->killed.push_back(task);
    cancel.push_back(id);
    if (queue_.failed()) {
      CancelFor(queue_.Remove(id), CancelledByError(queue_.error()));
    } else {
      Requeue(c);
    }
  }
  if (!lost) CancelOn(worker, cancel);
  unfinished_.Release(worker);
}

void CoordinatorCore::Rest(int worker, int64_t us, const std::string& why) {
  Worker& w = workers_[static_cast<size_t>(worker)];
  if (now_us_ < w.rests_until_us) return;
  w.rests_until_us = now_us_ + us;
  w.rests_why = why;
  w.rests_late = false;
  outbox_.effects()->Note("worker_set_aside",
                          fmt::format("{}: {}", membership_.Name(WorkerTask(worker)), why));
  RequeueAll(worker, /*lost=*/false);
  AdvanceCut();
  RefillAll(/*idle_only=*/false);
}

void CoordinatorCore::CancelOn(int worker, const std::vector<uint64_t>& ids) {
  if (ids.empty() || !membership_.adopted(WorkerTask(worker))) return;
  v1::ChiefToWorker message;
  message.mutable_cancel()->mutable_ids()->Add(ids.begin(), ids.end());
  message.mutable_cancel()->set_timeline(timeline_);
  outbox_.ToWorker(worker, std::move(message));
}

void CoordinatorCore::Fail(absl::Status error) {
  if (phase_ == Phase::kFailed || !queue_.Fail(std::move(error))) return;
  outbox_.effects()->Note("job_error", queue_.error().ToString());
  cancel_since_us_ = now_us_;
  const absl::Status aborted = CancelledByError(queue_.error());
  for (auto& closure : queue_.Drain()) CancelFor(std::move(closure), aborted);
  for (size_t i = 0; i < workers_.size(); ++i) {
    const int worker = static_cast<int>(i);
    workers_[i].dropped = false;
    std::vector<uint64_t> ids = unfinished_.HeldBy(worker);
    ids.insert(ids.end(), workers_[i].in_flight.begin(), workers_[i].in_flight.end());
    CancelOn(worker, ids);
  }
}

// ------------------------------------------------------------------ handing out

bool CoordinatorCore::MayDispatch(int worker) const {
  const Worker& w = workers_[static_cast<size_t>(worker)];
  return phase_ == Phase::kReady && served_ && w.ready && now_us_ >= w.rests_until_us &&
         !queue_.failed() && stop_record_ == 0;
}

void CoordinatorCore::FillDispatch(const Closure& closure, v1::Closure* out) const {
  const ClosureSpec& spec = closure.spec;
  out->set_id(closure.id);
  out->set_attempt(closure.attempt);
  out->set_place(closure.place);
  out->set_timeline(timeline_);
  out->set_program(programs_[static_cast<size_t>(spec.program)].name);
  out->set_steps(spec.steps);
  out->set_training(spec.training);
  if (spec.resource >= 0) out->set_resource(resources_[static_cast<size_t>(spec.resource)].name);
  for (const v1::Lease& lease : spec.leases) *out->add_leases() = lease;
  for (const v1::TensorValue& argument : spec.arguments) *out->add_arguments() = argument;
}

// Hands out when half of what a worker may have in flight is done, so that one message carries
// several closures; near the end of the line each worker gets its share only.
void CoordinatorCore::Refill(int worker) {
  if (!MayDispatch(worker) || queue_.queued() == 0) return;
  Worker& w = workers_[static_cast<size_t>(worker)];
  const size_t most = std::max<size_t>(1, options_.closures_in_flight);
  if (w.in_flight.size() > most / 2 || !all_ps_there() || rollback_.active()) return;
  const size_t ready = static_cast<size_t>(std::max(1, ready_workers()));
  const size_t share = (queue_.size() + ready - 1) / ready;
  if (w.in_flight.size() >= share) return;
  const size_t want = std::min(most, share) - w.in_flight.size();
  const uint64_t ids_end =
      std::min(ids_.durable_end(), settlement_.watermark() + options_.max_ids_ahead);
  v1::ChiefToWorker message;
  v1::Dispatch* dispatch = message.mutable_dispatch();
  for (size_t i = 0; i < want; ++i) {
    Closure* c = queue_.Dispatch(worker, !cut_.holds_dispatch(), ids_end);
    if (c == nullptr) break;
    w.in_flight.push_back(c->id);
    FillDispatch(*c, dispatch->add_closures());
  }
  if (dispatch->closures_size() == 0) return;
  if (w.in_flight.size() == static_cast<size_t>(dispatch->closures_size())) {
    w.progress_us = now_us_;
  }
  dispatch->set_settled_watermark(settlement_.durable_watermark());
  counters_.dispatched += static_cast<uint64_t>(dispatch->closures_size());
  ++counters_.dispatch_messages;
  outbox_.ToWorker(worker, std::move(message));
}

void CoordinatorCore::RefillAll(bool idle_only) {
  if (queue_.queued() == 0 || workers_.empty()) return;
  const int n = static_cast<int>(workers_.size());
  for (int i = 0; i < n && queue_.queued() > 0; ++i) {
    const int worker = (next_idle_ + i) % n;
    if (idle_only && !workers_[static_cast<size_t>(worker)].in_flight.empty()) continue;
    Refill(worker);
  }
  next_idle_ = (next_idle_ + 1) % n;
}

void CoordinatorCore::TellWatermark(int ps) {
  v1::ChiefToPs message;
  message.mutable_watermark()->set_settled_watermark(settlement_.durable_watermark());
  outbox_.ToPs(ps, message);
}

// The durable watermark has moved: tell servers, and the workers that nothing else tells.
void CoordinatorCore::Settled() {
  counters_.settle_records = settlement_.records();
  for (size_t i = 0; i < ps_.size(); ++i) {
    if (membership_.adopted(PsTask(static_cast<int>(i)))) TellWatermark(static_cast<int>(i));
  }
  v1::ChiefToWorker to_worker;
  to_worker.mutable_dispatch()->set_settled_watermark(settlement_.durable_watermark());
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].ready && workers_[i].in_flight.empty()) {
      outbox_.ToWorker(static_cast<int>(i), to_worker);
    }
  }
}

}  // namespace cohort
