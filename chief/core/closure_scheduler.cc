#include "chief/core/closure_scheduler.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "chief/core/recovery.h"
#include "common/base/crash_point.h"
#include "common/base/status.h"

namespace cohort {

// ------------------------------------------------------------------ ids

void IdAllocator::Reset(uint64_t timeline, uint64_t reserved_end) {
  timeline_ = timeline;
  reserved_end_ = durable_end_ = reserved_end;
  next_size_ = kFirstBlock;
  current_.reset();
  ahead_.reset();
  unwritten_.clear();
  given_up_.clear();
}

bool IdAllocator::Fits(const Block& block, const Request& request) {
  if (block.used >= block.what.count() || block.what.by_job() != request.by_job) return false;
  if (!request.by_job) return true;
  const uint64_t place = block.what.first_place() + block.used * block.what.steps();
  return request.place == place && request.places_end == block.what.max_places() &&
         request.steps == std::min<uint64_t>(block.what.steps(), request.places_end - place);
}

IdAllocator::Block IdAllocator::Open(const Request& request) {
  Block block;
  block.what.set_first_id(reserved_end_);
  block.what.set_timeline(timeline_);
  block.what.set_by_job(request.by_job);
  uint64_t count = next_size_;
  if (request.by_job) {
    const uint64_t left = std::max<uint64_t>(request.places_end, request.place + 1) - request.place;
    count = std::min(kBlock, (left + request.steps - 1) / request.steps);
    block.what.set_first_place(request.place);
    block.what.set_steps(request.steps);
    block.what.set_max_places(request.places_end);
  } else {
    next_size_ = std::min(kBlock, next_size_ * 2);
  }
  block.what.set_count(count);
  reserved_end_ += count;
  v1::JournalRecord record;
  *record.mutable_reserve() = block.what;
  unwritten_.push_back({outbox_->Append(std::move(record)), reserved_end_});
  return block;
}

void IdAllocator::ReserveAhead() {
  const v1::ReserveClosures& now = current_->what;
  if (ahead_.has_value() || current_->used * 2 < now.count()) return;
  Request next{.by_job = now.by_job(), .steps = now.steps(), .places_end = now.max_places()};
  next.place = now.first_place() + now.count() * now.steps();
  if (now.by_job() && next.place >= next.places_end) return;
  ahead_ = Open(next);
}

void IdAllocator::GiveUp(std::optional<Block>* block) {
  if (!block->has_value()) return;
  const uint64_t first = (*block)->what.first_id();
  const uint64_t begin = first + (*block)->used;
  const uint64_t end = first + (*block)->what.count();
  if (begin < end) given_up_.emplace_back(begin, end);
  block->reset();
}

uint64_t IdAllocator::Next(const Request& request) {
  if (!current_.has_value() || !Fits(*current_, request)) {
    GiveUp(&current_);
    if (ahead_.has_value() && Fits(*ahead_, request)) {
      current_ = std::exchange(ahead_, std::nullopt);
    } else {
      GiveUp(&ahead_);
      if (!request.by_job) next_size_ = kFirstBlock;
      current_ = Open(request);
    }
  }
  const uint64_t id = current_->what.first_id() + current_->used++;
  ReserveAhead();
  return id;
}

bool IdAllocator::OnJournaled(uint64_t record) {
  bool mine = false;
  while (!unwritten_.empty() && unwritten_.front().record <= record) {
    mine = true;
    durable_end_ = std::max(durable_end_, unwritten_.front().end);
    unwritten_.erase(unwritten_.begin());
  }
  if (mine) COHORT_CRASH_POINT("chief.closures.reserved");
  return mine;
}

// ------------------------------------------------------------------ closures

void ClosureScheduler::Reset(uint64_t reserved_end, uint64_t next_place) {
  ids_.Reset(context_->timeline, reserved_end);
  next_place_ = next_place;
}

void ClosureScheduler::GiveNewId(Closure* closure) {
  const ClosureSpec& spec = closure->spec;
  if (spec.training && !closure->by_job()) closure->place = next_place_;
  closure->id = ids_.Next({.by_job = closure->by_job(),
                           .place = closure->place,
                           .steps = spec.steps,
                           .places_end = closure->by_job() ? spec.place->places_end : 0});
  for (const auto& [begin, end] : ids_.TakeGivenUp()) settlement_->Close(begin, end);
  closure->attempt = AttemptBase(context_->era);
  closure->min_attempt = closure->attempt + 1;
  if (spec.training) next_place_ = std::max(next_place_, closure->place + spec.steps);
}

absl::StatusOr<std::optional<UnfinishedClosures::Entry>> ClosureScheduler::TakeUp(
    const ClosureSpec& spec) {
  UnfinishedClosures& unfinished = closures_->unfinished();
  const UnfinishedClosures::Entry* const entry = unfinished.Find(spec.place->place);
  if (entry == nullptr) return std::nullopt;
  const UnfinishedClosure& closure = entry->closure;
  if (closure.steps != spec.steps) {
    return Internal("closure {} of place {} has {} steps, not {}", closure.id, closure.place,
                    closure.steps, spec.steps);
  }
  if (entry->holder < 0) {
    COHORT_RETURN_IF_ERROR(CheckAttempt(context_->era, closure.id, closure.place, entry->attempt));
  }
  return unfinished.Take(spec.place->place);
}

absl::StatusOr<uint64_t> ClosureScheduler::Schedule(ClosureSpec spec) {
  auto closure = std::make_unique<Closure>();
  closure->spec = std::move(spec);
  ClosureSpec& s = closure->spec;
  if (!s.training) s.place.reset();
  std::optional<UnfinishedClosures::Entry> known;
  if (s.place.has_value()) {
    closure->place = s.place->place;
    if (auto result = closures_->unfinished().TakeEarly(closure->place)) {
      const uint64_t id = result->id();  // ClosureDone may move the result
      outbox_->effects()->ClosureDone(s.token, absl::OkStatus(), &*result);
      return id;
    }
    COHORT_ASSIGN_OR_RETURN(known, TakeUp(s));
  }
  if (known.has_value()) {
    closure->id = known->closure.id;
    closure->fresh = !known->begun;
    closure->attempt = known->attempt;
    closure->min_attempt = known->min_attempt;
  } else {
    GiveNewId(closure.get());
  }
  const uint64_t id = closure->id;
  if (known.has_value() && known->holder >= 0) {
    closures_->queue().AddInFlight(std::move(closure), known->holder, known->held_attempt);
  } else {
    closures_->queue().Add(std::move(closure));
  }
  return id;
}

}  // namespace cohort
