#ifndef COHORT_CHIEF_CORE_ROLLBACK_H_
#define COHORT_CHIEF_CORE_ROLLBACK_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/homes.h"
#include "chief/core/outbox.h"
#include "chief/core/progress_watch.h"

namespace cohort {

// The state that a rollback restores.
struct RollbackTarget {
  uint64_t timeline = 0;          // the new timeline
  uint64_t term = 0;              // the new term of every tablet
  uint64_t reserved_end = 1;      // ids below it count as settled, except `pending`
  std::vector<uint64_t> pending;  // ids of the cut's pending closures, ascending
  uint64_t cut_timeline = 0;
  uint64_t cut_generation = 0;
  uint64_t cut = 0;
  uint64_t layout_hash = 0;
  std::string manifest;  // its file; "" = the initial state: shards are initialized
  uint64_t epoch = 0;    // finished epochs at the cut
  v1::ChiefCut chief;    // the chief's part of the cut; empty for the initial state
};

// Restores the state of a cut, or the initial state of the job, on all servers.
//
//   kIdle ─(1)─► kJournaling ─(2)─► kAssigning ─(3)─► kTakingHomes ─(4)─► kIdle, done
//                    └───────(5)────────┴──────────────────┴────────────► kIdle, failed
//
// (1) Begin writes a Rollback record with the new timeline. (2) The record is durable: the chief
// sends AssignTablets to every ps, with the cut (or the file of initial values), the new timeline
// and term, and the ids that count as settled. (3) All servers have answered. (4) So they have when
// the chief told them where copies of tablets are; without copies it tells nothing. (5) A ps is
// lost or answers with an error, or makes no progress for as long as the deadline. The client
// repeats a failed rollback at a higher timeline.
class Rollback {
 public:
  enum class State : uint8_t { kIdle, kJournaling, kAssigning, kTakingHomes };

  Rollback(const CoreOptions* options, Outbox* outbox, Homes* homes)
      : options_(options), outbox_(outbox), homes_(homes) {}

  State state() const { return state_; }
  bool active() const { return state_ != State::kIdle; }
  // True from Begin until edge (2), even if the rollback fails earlier. No settle record may be
  // written after the Rollback record, because it would count for the new timeline.
  bool holds_settlement() const { return holds_settlement_; }
  const RollbackTarget& target() const { return target_; }

  // `servers_of_host`: by ps, how many servers share its machine.
  void Begin(RollbackTarget target, const v1::Layout& layout, std::vector<uint32_t> servers_of_host,
             int64_t now_us);
  // Returns true if it takes edge (2): the new timeline begins.
  bool OnJournaled(uint64_t record, int64_t now_us);
  // Returns true if the message belongs to the rollback.
  bool OnPsMessage(int ps, const v1::PsToChief& message, int64_t now_us);
  void Tick(int64_t now_us);
  void Fail(const absl::Status& why);
  // Returns true once after edge (4).
  bool TakeDone() { return std::exchange(done_, false); }

 private:
  bool AllAnswered() const;
  void TellHomes(int64_t now_us);

  const CoreOptions* const options_;
  Outbox* const outbox_;
  Homes* const homes_;
  State state_ = State::kIdle;
  bool done_ = false;
  bool holds_settlement_ = false;
  RollbackTarget target_;
  v1::Layout layout_;
  uint64_t record_ = 0;
  std::vector<uint32_t> servers_of_host_;
  int64_t deadline_us_ = 0;         // for the journal
  std::vector<uint64_t> requests_;  // by ps; 0: answered
  std::vector<ProgressWatch> progress_;
};

// Returns the ids that count as settled after a rollback, in the format of the tablets.
v1::AppliedSetProto FloorOf(const RollbackTarget& target);

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_ROLLBACK_H_
