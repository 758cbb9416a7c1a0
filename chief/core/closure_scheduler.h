#ifndef COHORT_CHIEF_CORE_CLOSURE_SCHEDULER_H_
#define COHORT_CHIEF_CORE_CLOSURE_SCHEDULER_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "chief/core/core_context.h"
#include "chief/core/id_allocator.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "chief/core/settlement.h"

namespace cohort {

// Turns what the client schedules into closures. A new closure gets an id and a place. If its place
// has an unfinished closure, that closure is scheduled again under its old id.
class ClosureScheduler {
 public:
  ClosureScheduler(const CoreContext* context, Outbox* outbox, Settlement* settlement,
                   OpenClosures* closures)
      : context_(context),
        outbox_(outbox),
        settlement_(settlement),
        closures_(closures),
        ids_(outbox) {}

  // Starts at the context's timeline. Ids from `reserved_end` and places from `next_place` are
  // free.
  void Reset(uint64_t reserved_end, uint64_t next_place);

  // Returns the closure's id. If the closure has ended before it was scheduled again, this calls
  // ClosureDone, and nothing is open. Errors: those of OpenClosures::TakeUp.
  absl::StatusOr<uint64_t> Schedule(ClosureSpec spec);

  // Returns true if more ids may be dispatched now.
  bool OnJournaled(uint64_t record) { return ids_.OnJournaled(record); }

  // Ids below are durably reserved: they may be dispatched.
  uint64_t durable_end() const { return ids_.durable_end(); }
  // The first id that is not reserved.
  uint64_t reserved_end() const { return ids_.reserved_end(); }
  // The first place that has no id.
  uint64_t next_place() const { return next_place_; }

 private:
  void GiveNewId(Closure* closure);

  const CoreContext* const context_;
  Outbox* const outbox_;
  Settlement* const settlement_;
  OpenClosures* const closures_;
  IdAllocator ids_;
  uint64_t next_place_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLOSURE_SCHEDULER_H_
