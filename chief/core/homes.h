#ifndef COHORT_CHIEF_CORE_HOMES_H_
#define COHORT_CHIEF_CORE_HOMES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"
#include "chief/core/servers.h"

namespace cohort {

// Which server answers for each tablet, under which term, and which server has its copy
// (docs/design/copies.md). Only the chief changes it. A change counts when it is in the journal;
// then the servers hear it, and when a new primary has answered, the workers do.
//
//   steady ─(1) Lose, LoseCopy─► journaling ─(2) OnJournaled─► telling ─(3) all answered─► steady
//
// (1) A server that has a copy of what it answered for is lost, or a copy is; or a new copy is
// complete. (3) Every server that answers for a tablet has taken its homes. Another loss
// restarts at (1).
//
// A tablet without a copy gets one, one tablet after another, while the job continues:
//
//   none ─(4) Fill─► making ─(5) the server has an empty copy─► filling ─(6) complete─► journaling
//     ▲                 └──────────(7) a server of it is lost, or fails─────┘
//
// (6) The primary waits for the copy. It counts when the journal has it.
//
// A tablet *moves* to another server if a user has the server drained, or the tablets rebalanced:
// the other server gets a copy by (4) to (6), and is promoted by (1). Nothing is rolled back.
class Homes {
 public:
  Homes(const CoreContext* context, Outbox* outbox, const Membership* membership,
        const Servers* servers)
      : context_(context), outbox_(outbox), membership_(membership), servers_(servers) {
    DrainFreePlaces();
  }

  // ---- the beginning of a timeline, or of a chief
  // A rollback gives each server the tablets of the layout, and copies of others, under this term.
  void Assign(const v1::Layout& layout, uint64_t term);
  // The homes that the journal has. None: those of the layout, of which no tablet has moved.
  void Restore(const std::optional<v1::TabletHomes>& journaled);
  // True if the adopted servers have all tablets, as primaries or as copies that are complete.
  bool CanResume(const v1::Layout& layout) const;
  // They serve that: what is missing is lost, and all servers take their homes.
  void Resume(const v1::Layout& layout);

  // ---- new copies, and moves
  // Edge (4), if a tablet has no copy and a server could keep it, or a tablet has to move; edge (1)
  // for a tablet whose copy is where the tablet has to be, if `may_hand_over`.
  // `boundary`: where the open synchronous step begins.
  void Advance(const v1::Layout& layout, const v1::StepPosition& boundary,
               const v1::LearningRates& rates, bool may_hand_over);
  // The tablets and copies of the server move to others, and it gets no more of them. Errors:
  // InvalidArgument if no such server exists, or no other would be left.
  absl::Status Drain(int ps, const v1::Layout& layout);
  // The servers of its copies answer for the tablets of the server now, although it may live: edge
  // (1). From then on it is drained. Errors: FailedPrecondition if one of its tablets has no copy
  // on another server; those of Drain.
  absl::Status Fence(int ps);
  // A drained server may have tablets again. Errors: InvalidArgument if it was not drained, or has
  // left.
  absl::Status Return(int ps);
  // Tablets move back to the servers where the layout has them, as far as these are not drained. A
  // server that has joined gets some of each of the others.
  absl::Status Rebalance(const v1::Layout& layout);
  // The tablet moves to the server. Errors: InvalidArgument if the server may not have tablets.
  absl::Status Move(uint32_t tablet, int ps);
  // A server that had joined is gone for good: nothing moves to its place any more.
  void Forget(int ps);
  // Also a free place. If no other server is left, those that a user has drained count again.
  bool drained(int ps) const;
  // Tablets that were handed over to the servers where they have to be.
  uint64_t handed_over() const { return handed_over_; }
  // Tablets that are not where they have to be.
  size_t moving() const;
  // True if nothing moves to a server that is there, no copy is filled and none is missing.
  bool settled() const;
  // The server that has to be the primary of each tablet, if it is there; else the primary.
  std::map<uint32_t, int> places() const;
  // The servers that are there and may have tablets.
  std::set<int> open_servers() const;
  // The layout without tablets on drained servers.
  v1::Layout Placed(const v1::Layout& layout) const;
  // Edge (7) if the server takes part.
  void DropFill(int ps);

  // ---- losses
  // True if the server has a tablet or a copy.
  bool Involves(int ps) const;
  bool IsPrimary(int ps) const;
  // True if every tablet for which it answers has a copy on another server that is there.
  bool Survives(int ps) const;
  // Edge (1) for each of its tablets and copies. It survives.
  void Lose(int ps);
  // Edge (1), unless the tablet has another term meanwhile.
  void LoseCopy(uint32_t tablet, uint64_t term);

  // ---- progress
  void OnJournaled(uint64_t record);
  // Returns true if the message is an answer.
  bool OnPsMessage(int ps, const v1::PsToChief& message);
  // The server was away, or is new: it takes its homes, if any changed since the assignment.
  void OnPsAdopted(int ps);
  // Returns, once, the servers that answer for tablets of others since the last call; nullopt: no
  // change has ended.
  std::optional<std::set<int>> TakeMoved();

  // ---- state
  bool steady() const { return record_ == 0 && requests_.empty(); }
  // True if some tablet has, or had, a copy.
  bool replicated() const { return replicated_; }
  // True if homes may differ from those of the last assignment, or there are copies.
  bool in_use() const { return replicated_ || changed_; }
  // True if the journal knows homes, or drained servers.
  bool journaled() const { return journaled_.has_value(); }
  // The number of tablets without a copy that should have one.
  size_t alone() const;
  // By server.
  std::vector<ServerTablets> figures() const;
  // The servers that answer for tablets.
  std::set<int> primaries() const;
  // True if all of these are there.
  bool there() const;
  // True if all servers are there, except drained ones.
  bool all_there() const;
  // The homes that the server must take.
  v1::ChiefToPs MessageFor(int ps) const;
  // Sends the places of the tablets to a worker that is adopted.
  void SendRoutes(int worker, const v1::Layout& layout) const;
  std::string Waiting() const;

 private:
  struct Home {
    uint64_t term = 0;
    int primary = 0;
    int copy = -1;  // the server; -1: there is none
    int place = 0;  // the server that has to be its primary
  };
  enum class FillState : uint8_t { kMaking, kFilling, kJournaling };
  struct NewCopy {
    uint32_t tablet = 0;
    int server = 0;
    FillState state = FillState::kMaking;
    uint64_t request = 0;  // MakeCopy has this number
  };

  // Nobody is there who could have tablets.
  void DrainFreePlaces();
  // Those that may have tablets, `there`: and are adopted.
  size_t servers_left(bool there) const;
  uint32_t named() const { return static_cast<uint32_t>(membership_->named(Role::kPs)); }
  static std::map<uint32_t, Home> OfLayout(const v1::Layout& layout, uint64_t term);
  std::map<uint32_t, Home> Known(const v1::Layout& layout) const;
  bool HasTablet(int ps, uint32_t tablet, const Home& home) const;
  bool HasCopy(int ps, uint32_t tablet, const Home& home) const;
  std::optional<int> Successor(uint32_t tablet, const Home& home) const;
  int PlaceOf(const Home& home) const {
    return membership_->adopted(PsTask(home.place)) ? home.place : home.primary;
  }
  absl::Status CheckDrain(int ps) const;
  void Promote(uint32_t tablet, Home* home);
  // The server that should keep the tablet's next copy, if any can.
  std::optional<int> ServerForCopy(const v1::TabletSpec& spec, const Home& home) const;
  void MakeCopy(const v1::Layout& layout, uint32_t tablet, int server,
                const v1::StepPosition& boundary, const v1::LearningRates& rates);
  void FillUp(int server);
  bool HandsOverEarly();  // a planted bug
  void EndFill();
  void NoteDegraded();
  void Send(int ps);
  void Journal();
  void Tell();

  const CoreContext* const context_;
  Outbox* const outbox_;
  const Membership* const membership_;
  const Servers* const servers_;
  std::map<uint32_t, Home> homes_;  // by tablet
  std::set<int> drained_;           // free places, too
  uint64_t handed_over_ = 0;
  std::string hand_over_;  // for the log, when the journal has it; "": none
  std::optional<v1::TabletHomes> journaled_;
  bool replicated_ = false;
  bool changed_ = false;              // since the assignment
  uint64_t record_ = 0;               // journaling: its record
  std::map<int, uint64_t> requests_;  // telling: the servers that have to answer
  std::set<int> promoted_;            // that answer for more since the last TakeMoved
  bool moved_ = false;                // TakeMoved has something
  std::optional<NewCopy> fill_;
  bool degraded_ = false;  // as the log has it
  int64_t next_fill_us_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_HOMES_H_
