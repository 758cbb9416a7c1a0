#ifndef COHORT_CHIEF_CORE_ROLLBACK_H_
#define COHORT_CHIEF_CORE_ROLLBACK_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/outbox.h"

namespace cohort {

// Where a rollback goes.
struct RollbackTarget {
  uint64_t timeline = 0;          // of the work from now on
  uint64_t term = 0;              // of every tablet from now on
  uint64_t reserved_end = 1;      // ids below it count as settled, but for `pending`
  std::vector<uint64_t> pending;  // ids of the cut's pending closures, ascending
  uint64_t cut_timeline = 0;
  uint64_t cut_generation = 0;
  uint64_t cut = 0;
  uint64_t layout_hash = 0;
  std::string manifest;  // file; "" = the beginning: shards are initialized
};

// Puts all servers to the state of a cut, or to the initial state (which is how a job begins, too).
//
//   kIdle ─(1)─► kJournaling ─(2)─► kAssigning ─(3)─► kIdle, done
//                    └───────(4)────────┴───────────► kIdle, failed
//
// (1) Begin: a Rollback record with the new timeline. (2) it is durable: AssignTablets to every ps,
// with the cut, the new timeline and term, and the ids that count as settled. (3) all have them.
// (4) a ps is lost, answers with an error, or the deadline passes. A failed one is repeated with a
// higher timeline.
class Rollback {
 public:
  enum class State : uint8_t { kIdle, kJournaling, kAssigning };

  Rollback(const CoreOptions* options, Outbox* outbox) : options_(options), outbox_(outbox) {}

  State state() const { return state_; }
  bool active() const { return state_ != State::kIdle; }
  const RollbackTarget& target() const { return target_; }

  void Begin(RollbackTarget target, const v1::Layout& layout, int64_t now_us);
  // True where edge (2) was taken: the timeline is the new one from here on.
  bool OnJournaled(uint64_t record);
  // True where the message was for this.
  bool OnPsMessage(int ps, const v1::PsToChief& message);
  void Tick(int64_t now_us);
  void Fail(const absl::Status& why);
  // True once after edge (3).
  bool TakeDone() { return std::exchange(done_, false); }

 private:
  const CoreOptions* const options_;
  Outbox* const outbox_;
  State state_ = State::kIdle;
  bool done_ = false;
  RollbackTarget target_;
  v1::Layout layout_;
  uint64_t record_ = 0;
  int64_t deadline_us_ = 0;
  std::vector<uint64_t> requests_;  // by ps; 0: answered
};

// The ids that count as settled after a rollback, as tablets keep them.
v1::AppliedSetProto FloorOf(const RollbackTarget& target);

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_ROLLBACK_H_
