#include "chief/core/open_closures.h"

#include <algorithm>
#include <utility>

#include "chief/core/recovery.h"
#include "common/base/status.h"

namespace cohort {

OpenClosures::OpenClosures(const CoreContext* context, Outbox* outbox, Settlement* settlement,
                           ClosureQueue* queue, UnfinishedClosures* unfinished, JobError* error)
    : context_(context),
      outbox_(outbox),
      settlement_(settlement),
      queue_(queue),
      unfinished_(unfinished),
      error_(error) {}

void OpenClosures::Restore(const std::vector<UnfinishedClosure>& closures, uint32_t min_attempt) {
  for (const UnfinishedClosure& closure : closures) {
    unfinished_->Add(
        {.closure = closure, .attempt = AttemptBase(context_->era), .min_attempt = min_attempt});
  }
}

void OpenClosures::RollBack(const v1::ChiefCut& cut) {
  EndAll(Aborted("the cluster was rolled back"));
  unfinished_->Clear();
  EndEpoch();
  const uint32_t base = AttemptBase(context_->era);
  for (const v1::PendingClosure& pending : cut.pending()) {
    unfinished_->Add(
        {.closure = {.id = pending.id(), .place = pending.place(), .steps = pending.steps()},
         .attempt = base,
         .min_attempt = base + 1});
  }
}

void OpenClosures::EndAll(const absl::Status& why) {
  for (const auto& closure : queue_->Clear()) {
    outbox_->effects()->ClosureDone(closure->spec.token, why, nullptr);
  }
}

// ------------------------------------------------------------------ workers

bool OpenClosures::Claim(uint64_t id, int worker, uint32_t attempt) {
  Closure* const c = queue_->Find(id);
  const bool waits = c != nullptr && c->state == Closure::State::kQueued &&
                     attempt >= c->min_attempt && attempt <= c->attempt;
  if (!waits) return unfinished_->Hold(id, worker, attempt);
  queue_->Claim(c, worker, attempt);
  return true;
}

std::vector<uint64_t> OpenClosures::ClosuresOn(int worker) const {
  std::vector<uint64_t> ids = unfinished_->HeldBy(worker);
  const std::deque<uint64_t>& in_flight = queue_->InFlightOn(worker);
  ids.insert(ids.end(), in_flight.begin(), in_flight.end());
  return ids;
}

// ------------------------------------------------------------------ ends

void OpenClosures::Count(const v1::ClosureResult& result) {
  ++counters_.finished;
  counters_.applied += result.applied();
  counters_.duplicates += result.duplicates();
  counters_.examples += result.examples();
  counters_.not_finite_steps += result.not_finite_steps();
  counters_.max_staleness = std::max(counters_.max_staleness, result.max_staleness());
  counters_.sum_staleness += result.sum_staleness();
  EpochStaleness& epoch = counters_.epoch_staleness;
  epoch.sections += result.applied();
  epoch.sum += result.sum_staleness();
  epoch.max = std::max(epoch.max, result.max_staleness());
  if (!result.mixed()) return;
  ++counters_.mixed;
  outbox_->effects()->Note("closure_mixed", fmt::format("id={}", result.id()));
}

void OpenClosures::Finish(uint64_t id, v1::ClosureResult* result) {
  const std::unique_ptr<Closure> done = queue_->Remove(id);
  Count(*result);
  settlement_->Finish(id, done->spec.training, *result);
  outbox_->effects()->ClosureDone(done->spec.token, absl::OkStatus(), result);
}

void OpenClosures::FinishHeard(uint64_t id) {
  v1::ClosureResult result = std::move(*queue_->Find(id)->heard);
  Finish(id, &result);
}

void OpenClosures::LeaveStep(uint64_t id) {
  Closure* const c = queue_->Find(id);
  if (c == nullptr) return;
  c->step = {};
  c->copy_worker = -1;
  if (c->state != Closure::State::kHeard) return;
  if (failed()) return Cancel(id);
  c->min_attempt = c->attempt + 1;
  queue_->Requeue(c);
}

uint64_t OpenClosures::FinishBefore(uint64_t end) {
  uint64_t lost = 0;
  for (const UnfinishedClosure& closure : unfinished_->List()) {
    if (closure.place >= end) break;
    v1::ClosureResult result;
    result.set_id(closure.id);
    result.set_steps(closure.steps);
    unfinished_->Take(closure.place);
    settlement_->Finish(closure.id, /*training=*/true, result);
    ++lost;
  }
  return lost;
}

bool OpenClosures::FinishUnfinished(v1::ClosureResult* result) {
  if (result->dropped()) return false;
  switch (unfinished_->OnResult(*result)) {
    case UnfinishedClosures::Outcome::kUnknown:
      return false;
    case UnfinishedClosures::Outcome::kFailed:
      return true;
    case UnfinishedClosures::Outcome::kFinished:
      break;
  }
  Count(*result);
  settlement_->Finish(result->id(), /*training=*/true, *result);
  return true;
}

void OpenClosures::EndFailed(uint64_t id, const absl::Status& status) {
  const std::unique_ptr<Closure> closure = queue_->Remove(id);
  outbox_->effects()->ClosureDone(closure->spec.token, status, nullptr);
  if (!closure->by_job()) {
    settlement_->Close(id, id + 1);
    return;
  }
  // What a synchronous closure has pushed is void, because its step was abandoned.
  unfinished_->Add({.closure = {.id = id, .place = closure->place, .steps = closure->spec.steps},
                    .attempt = closure->attempt,
                    .min_attempt = sync_ ? closure->attempt + 1 : closure->min_attempt});
}

absl::Status OpenClosures::Requeue(Closure* closure) {
  absl::Status limit = CheckLimits(*closure);
  queue_->Requeue(closure);
  ++counters_.requeued;
  return limit;
}

absl::Status OpenClosures::CheckLimits(const Closure& closure) const {
  if (closure.killed.size() < context_->options.max_attempts) {
    return CheckAttempt(context_->era, closure.id, closure.place, closure.attempt);
  }
  std::string names;
  for (const Task& task : closure.killed) names += (names.empty() ? "" : ", ") + task.ToString();
  return Aborted("closure {} (place {}) killed every worker that it touched: {}", closure.id,
                 closure.place, names);
}

bool OpenClosures::Raise(absl::Status error) {
  const std::string text(error.message());
  if (!error_->Raise(std::move(error))) return false;
  outbox_->effects()->Warn("job_error", text);
  for (const uint64_t id : queue_->Waiting()) Cancel(id);
  return true;
}

// ------------------------------------------------------------------ state

void OpenClosures::FillPending(v1::ChiefCut* cut, uint64_t* next_place) const {
  for (const Closure* c : queue_->Pending(next_place)) {
    v1::PendingClosure* const pending = cut->add_pending();
    pending->set_id(c->id);
    pending->set_place(c->place);
    pending->set_steps(c->spec.steps);
    for (const LeaseRange& lease : c->spec.leases) LeaseToProto(lease, pending->add_leases());
  }
  for (const UnfinishedClosure& closure : unfinished_->List()) {
    if (!unfinished_->Find(closure.place)->begun) {
      *next_place = std::min(*next_place, closure.place);
      continue;
    }
    v1::PendingClosure* const pending = cut->add_pending();
    pending->set_id(closure.id);
    pending->set_place(closure.place);
    pending->set_steps(closure.steps);
  }
  std::sort(cut->mutable_pending()->begin(), cut->mutable_pending()->end(),
            [](const auto& a, const auto& b) { return a.id() < b.id(); });
}

std::string OpenClosures::Waiting() const {
  const uint64_t open = settlement_->watermark();
  const uint64_t next = queue_->Next();
  if (next == 0 || next < open + context_->options.max_ids_ahead) return "";
  const Closure* const c = queue_->Find(open);
  if (c == nullptr) {
    const auto place = unfinished_->PlaceOf(open);
    return fmt::format("waiting for closure {}{}, which has to be scheduled again", open,
                       place.has_value() ? fmt::format(" (place {})", *place) : "");
  }
  const std::string where = c->state == Closure::State::kInFlight
                                ? TaskName(context_->options, WorkerTask(c->worker)) + " has"
                                : "no worker has taken";
  return fmt::format("waiting for closure {} (place {}), which {}", open, c->place, where);
}

}  // namespace cohort
