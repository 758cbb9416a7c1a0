#ifndef COHORT_CHIEF_CORE_CLOSURE_SCHEDULER_H_
#define COHORT_CHIEF_CORE_CLOSURE_SCHEDULER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "chief/core/settlement.h"

namespace cohort {

// Allocates closure ids from blocks that the journal reserves before they are used. The journal
// also records what the ids of a block mean: id first + i of a block of the job runner is the
// closure of place first_place + i * steps, cut short at max_places. An id of any other block means
// nothing after a restart. An id is allocated at once, but it may be used only when durable_end()
// has passed it.
//
//   none ──(1)──► current ──(2)──► current + ahead ──(3)──► current
//                    └─────(4)────────────┴──────────(4)──► current
//
// (1) Next opens a block. (2) Half of it is used. (3) It is used up. (4) Next needs another kind or
// place: it gives both blocks up and opens a new one.
class IdAllocator {
 public:
  struct Request {
    bool by_job = false;
    uint64_t place = 0;
    uint32_t steps = 1;
    uint64_t places_end = 0;
  };
  static constexpr uint64_t kBlock = 4096;      // ids per block at most
  static constexpr uint64_t kFirstBlock = 256;  // ids of the first block for other closures

  explicit IdAllocator(Outbox* outbox) : outbox_(outbox) {}

  // Starts at a timeline: ids start at `reserved_end`.
  void Reset(uint64_t timeline, uint64_t reserved_end);

  uint64_t Next(const Request& request);

  // Returns true if a block became durable with this record.
  bool OnJournaled(uint64_t record);

  // Ids below this one may be dispatched.
  uint64_t durable_end() const { return durable_end_; }
  // The first id that is not reserved.
  uint64_t reserved_end() const { return reserved_end_; }
  // Returns the ranges [begin, end) of reserved ids that were given up since the last call.
  std::vector<std::pair<uint64_t, uint64_t>> TakeGivenUp() { return std::exchange(given_up_, {}); }

 private:
  struct Block {
    v1::ReserveClosures what;
    uint64_t used = 0;
  };
  struct Unwritten {
    uint64_t record;
    uint64_t end;
  };

  static bool Fits(const Block& block, const Request& request);
  Block Open(const Request& request);
  void ReserveAhead();
  void GiveUp(std::optional<Block>* block);

  Outbox* const outbox_;
  uint64_t timeline_ = 0;
  uint64_t reserved_end_ = 1;
  uint64_t durable_end_ = 1;
  uint64_t next_size_ = kFirstBlock;
  std::optional<Block> current_;
  std::optional<Block> ahead_;
  std::vector<Unwritten> unwritten_;  // in order
  std::vector<std::pair<uint64_t, uint64_t>> given_up_;
};

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
  // ClosureDone, and nothing is open. Errors: Internal if the place has an unfinished closure of
  // other steps; Unavailable if that one was dispatched too often.
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
  // Edge (4) of OpenClosures: takes the unfinished closure of this place, if it has one.
  absl::StatusOr<std::optional<UnfinishedClosures::Entry>> TakeUp(const ClosureSpec& spec);
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
