#ifndef COHORT_CHIEF_CORE_STEPS_H_
#define COHORT_CHIEF_CORE_STEPS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "chief/core/closing_step.h"
#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/homes.h"
#include "chief/core/mode_switch.h"
#include "chief/core/open_closures.h"
#include "chief/core/open_step.h"
#include "chief/core/outbox.h"
#include "chief/core/rate_switch.h"
#include "chief/core/staleness_window.h"

namespace cohort {

// Decides which training closures may run together, and leads synchronous steps from one boundary
// to the next (docs/design/sync.md). In async mode it lets everything pass; with bounded staleness
// it asks the StalenessWindow.
//
// A synchronous step is made of closures_per_step closures; the end of an epoch, and a client that
// waits, make it shorter:
//
//   OpenStep: empty ─(1) Enter─► open ─(2) complete─► ClosingStep ─(3) all acknowledged─► closed
//               ▲                 │                      │
//               └──(4) Abandon────┘                      └─ the next step is open meanwhile
//
// (1) A closure is dispatched: it gets the next index. (2) The chief asks every server to close the
// step, and closures of the next step may start: their pulls wait on the servers. (3) The members
// are finished: only now are their results folded and settled, because a chief that dies before may
// have closed the step nowhere. The next step is not closed before that. (4) Members that were
// heard run again, or are cancelled; what they staged is void, because the next try has a higher
// number.
class Steps {
 public:
  Steps(const CoreContext* context, Outbox* outbox, OpenClosures* closures, const Homes* homes);

  // ------------------------------------------------------------- dispatch and results
  // True if the next training closure, or one that does not train, may be dispatched now.
  bool Admits(const Closure& closure) const;
  bool AdmitsOthers() const;
  // Edge (1). The closure is in flight. Does nothing if it does not train.
  void Enter(Closure* closure);
  // A worker has pushed this closure of a step to all tablets.
  void OnHeard(Closure* closure, v1::ClosureResult* result) { open_.Hear(closure, result); }
  // The closure has ended, outside sync mode.
  void OnEnded(const Closure& closure) { window_.Leave(closure.place); }
  // Clients begin or cease to wait for closures of their own (not of the job runner). While one
  // waits, the open step is closed when everything that was dispatched is heard and nothing is
  // queued.
  void AddWaiting(int clients) { open_.AddWaiting(clients); }
  // Does what has become possible: takes edges (2) and (3), and continues a change of the mode,
  // unless a rollback is under way, which ends the change. `next_place`: the first place that has
  // no id.
  void Advance(uint64_t next_place, bool rolls_back);

  // ------------------------------------------------------------- mode
  // Changes the mode when nothing is in flight and the open step is closed, which may be short. The
  // change is journaled before it counts. Errors: those of ModeSwitch::Request.
  absl::Status SetMode(const ModeSettings& settings) { return mode_.Request(settings, clips_); }

  // ------------------------------------------------------------- learning rate
  // Sets the learning rate from the next update on: that of the open step, or of the next closure
  // that is dispatched for the first time. Meanwhile no step is closed (in other modes: no training
  // closure begins).
  void SetLearningRate(double rate, bool by_user, uint64_t next_place);
  const RateSwitch& rates() const { return rates_; }
  void OnJournaled(uint64_t record);

  // ------------------------------------------------------------- servers
  // The servers will have this layout.
  void SetLayout(const v1::Layout& layout);
  // An answer of a server, or any other message. Errors: those of ClosingStep::OnPsMessage.
  absl::Status OnPsMessage(int ps, const v1::PsToChief& message);
  // Errors: those of ClosingStep::Tick.
  absl::Status Tick() const { return closing_.has_value() ? closing_->Tick() : absl::OkStatus(); }
  // A server that was away has come back with its tablets.
  void OnPsReturned(int ps, const v1::PsHello& hello);
  // A server is lost, and others have its tablets, or will have them.
  void OnPsReplaced(int ps) { rates_.OnPsReplaced(ps); }
  // The homes are steady again. These servers answer for tablets of others.
  void OnHomes(const std::set<int>& promoted);

  // ------------------------------------------------------------- errors, restarts and rollbacks
  // Edge (4).
  void Abandon();
  // A server is lost, and the job has an error because of that: it will never acknowledge a close.
  // Ends the closures of the step that is being closed; a rollback follows.
  void LoseServer();
  // The chief has adopted all servers, which have these hellos. `change`: the last change of the
  // mode in the journal, `rates`: its learning rates. Returns the boundary that at least one server
  // has reached.
  const v1::StepPosition& TakeOver(const std::optional<v1::ModeChange>& change,
                                   const v1::LearningRates& rates,
                                   const std::vector<const v1::PsHello*>& hellos);
  // The servers serve that state: repeats the newest close for those that have missed it.
  void Resume();
  // The servers go back to this cut.
  void RollBack(const v1::ChiefCut& cut);

  // ------------------------------------------------------------- state
  const ModeSwitch& mode() const { return mode_; }
  bool sync() const { return mode_.sync(); }
  const OpenStep& open() const { return open_; }
  // True if no step is being closed: open().begin() is the boundary after the newest step that all
  // servers have closed. A snapshot that is taken now has whole steps.
  bool at_boundary() const { return !closing_.has_value(); }
  // Closed synchronous steps, over the whole job.
  uint64_t closed() const { return open_.begin().open_step() - (at_boundary() ? 1 : 2); }
  // While this chief repeats the close of a former one, the closures before the boundary are
  // settled, but not yet applied everywhere: the first of them. Otherwise Settlement::kNoLimit.
  uint64_t first_of_repeated_close() const { return repeated_from_; }
  const StepCounters& counters() const { return counters_; }
  // What a close, or a change of the mode, is waiting for; "" if it does not take long.
  std::string Waiting() const;

 private:
  void BeginClose();
  void FinishClose();
  // The results of the members of the step that is being closed count.
  void FinishMembers();
  void AdvanceMode(uint64_t next_place);
  // Adds the time between the median of the members and the last one.
  void CountWaiting(const std::vector<StepMember>& members);
  // The step is closed without this closure: then its data counts as used, its metrics do not.
  void Drop(uint64_t closure);

  const CoreContext* const context_;
  Outbox* const outbox_;
  OpenClosures* const closures_;
  const Homes* const homes_;
  ModeSwitch mode_;
  RateSwitch rates_;
  StalenessWindow window_;
  OpenStep open_;
  std::optional<ClosingStep> closing_;  // the step before the open one
  // The closures that end with it, also those without which it is closed: a chief that dies before
  // may have closed it nowhere.
  std::vector<uint64_t> closing_members_;
  uint64_t repeated_from_ = Settlement::kNoLimit;
  bool clips_ = false;          // an optimizer clips gradients
  bool clips_by_norm_ = false;  // one clips them by a norm
  StepCounters counters_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_STEPS_H_
