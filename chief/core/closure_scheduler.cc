#include "chief/core/closure_scheduler.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "chief/core/recovery.h"
#include "common/base/status.h"

namespace cohort {

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

absl::StatusOr<uint64_t> ClosureScheduler::Schedule(ClosureSpec spec) {
  auto closure = std::make_unique<Closure>();
  closure->spec = std::move(spec);
  ClosureSpec& s = closure->spec;
  if (!s.training) s.place.reset();
  std::optional<UnfinishedClosures::Entry> known;
  if (s.place.has_value()) {
    closure->place = s.place->place;
    if (auto result = closures_->TakeEarly(closure->place)) {
      const uint64_t id = result->id();  // ClosureDone may move the result
      outbox_->effects()->ClosureDone(s.token, absl::OkStatus(), &*result);
      return id;
    }
    COHORT_ASSIGN_OR_RETURN(known, closures_->TakeUp(s));
  }
  if (known.has_value()) {
    closure->id = known->closure.id;
    closure->fresh = false;
    closure->attempt = known->attempt;
    closure->min_attempt = known->min_attempt;
  } else {
    GiveNewId(closure.get());
  }
  const uint64_t id = closure->id;
  closures_->Add(std::move(closure), known.has_value() ? known->holder : -1,
                 known.has_value() ? known->held_attempt : 0);
  return id;
}

}  // namespace cohort
