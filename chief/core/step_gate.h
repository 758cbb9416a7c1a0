#ifndef COHORT_CHIEF_CORE_STEP_GATE_H_
#define COHORT_CHIEF_CORE_STEP_GATE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/core_counters.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"
#include "common/base/exact_sum.h"

namespace cohort {

// The boundary at which a cut was taken.
v1::StepPosition PositionOf(const v1::ChiefCut& cut);

// Decides which training closures may run together (design: "Consistency modes"), and closes the
// steps of the synchronous mode. In async mode it lets everything pass.
//
// A synchronous step is made of closures_per_step closures; the end of an epoch, and a client that
// waits, make it shorter:
//
//   empty ─(1) Enter─► open ─(2) all members heard─► closing ─(3) all servers acknowledged─► closed
//                       │ ▲                             │
//                       └─┴──(4) Abandon: an error      └─ the next step is open meanwhile
//
// (1) A closure is dispatched: it gets the next index. (2) The chief sends CloseStep to every
// server, and closures of the next step may start: their pulls wait on the servers. (3) The members
// are finished: only now are their results folded and settled, because a chief that dies before may
// have closed the step nowhere. The next step is not closed before that. (4) Members that were heard
// run again, or are cancelled; what they staged is void, because the next try has a higher number.
//
// If an optimizer clips gradients by a norm, edge (2) takes two messages, because a norm is of all
// servers: the chief sends SumStep first, adds up the answers, and CloseStep has the norms. The step
// is closing meanwhile. A restarted chief knows nothing of it: it begins a new try.
//
// If the job scales its loss, a member whose gradient is not finite makes edge (2) skip the step: the
// servers apply nothing, and the iteration stays. The scale is part of the boundary (StepPosition),
// so restarts and rollbacks continue with it.
//
// With bounded staleness a closure waits until all closures of the steps before the last
// `staleness` ones have ended.
class StepGate {
 public:
  StepGate(const CoreContext* context, Outbox* outbox, OpenClosures* closures);

  bool sync() const { return settings_.mode == ConsistencyMode::kSync; }
  const ModeSettings& settings() const { return settings_; }
  // The change of the mode that a user has made in this job; none: the mode is the job's.
  const std::optional<v1::ModeChange>& change() const { return change_; }
  // What async mode adds to a place to get the optimizer's iteration.
  int64_t iteration_offset() const { return sync() ? 0 : iteration_offset_; }

  // The loss scale of the open step; 0: the job has none, or each worker has its own.
  double loss_scale() const;

  // ------------------------------------------------------------- dispatch
  // True if the next training closure may be dispatched now.
  bool Admits(const Closure& closure) const;
  // True if closures that do not train may be dispatched. In synchronous modes all of them see the
  // same version, and those that were scheduled after the next training closure wait for its step.
  bool AdmitsOthers() const;
  // Edge (1). The closure is in flight. Does nothing if it does not train.
  void Enter(Closure* closure);
  // The workers sum the dense gradients of the open step in a ring (JobSettings::ring). Then each
  // worker has the closures of a range of indices, so that it knows when its part is complete.
  // Returns the worker that has to get this closure, which is dispatched next; -1: any worker, or none
  // because the step is full.
  int WorkerOf(const Closure& closure) const;
  // How many closures one worker may have, if `workers` share the work.
  size_t ShareOf(size_t workers) const;

  // ------------------------------------------------------------- results
  // A worker has pushed this closure to all tablets.
  void OnHeard(Closure* closure, v1::ClosureResult* result);
  // The closure is not in any step any more. For bounded staleness.
  void OnEnded(const Closure& closure);
  // Clients begin or cease to wait for closures of their own (not of the job runner). While one
  // waits, the open step is closed when everything that was dispatched is heard and nothing is
  // queued.
  void AddWaiting(int clients);

  // ------------------------------------------------------------- mode
  // Changes the mode when nothing is in flight and the open step is closed, which may be short. The
  // change is journaled before it counts. Errors: FailedPrecondition if another change is under way,
  // closures are queued that the mode does not allow, or other tasks would have to clip gradients.
  absl::Status SetMode(const ModeSettings& settings);
  bool changing_mode() const { return next_.has_value(); }
  void OnJournaled(uint64_t record);

  // Does what has become possible: takes edge (2), and continues a change of the mode, unless a
  // rollback is under way, which ends the change. `next_place`: the first place that has no id.
  void Advance(uint64_t next_place, bool rolls_back);

  // ------------------------------------------------------------- servers
  // The servers will have this layout.
  void SetLayout(const v1::Layout& layout);
  // An answer to SumStep. Errors: InvalidArgument if it cannot be read.
  absl::Status OnStepSummed(int ps, const v1::PsToChief& answer);
  // Returns the error of a server that could not carry out SumStep or CloseStep; OK if the message
  // is none.
  absl::Status ErrorOf(int ps, const v1::PsToChief& message) const;
  // Edge (3), for one server.
  void OnStepClosed(int ps, uint64_t step);
  // A server that was away has come back with its tablets: it may have missed a close.
  void OnPsReturned(int ps, const v1::PsHello& hello);

  // ------------------------------------------------------------- errors, restarts and rollbacks
  // Edge (4).
  void Abandon();
  // A server is lost, and the job has an error because of that: it will never acknowledge a close.
  // Ends the closures of the step that is being closed; a rollback follows.
  void LoseServer();
  // The chief has adopted all servers, which have these hellos. `change`: the last change of the
  // mode in the journal. Returns the boundary that at least one server has reached.
  const v1::StepPosition& TakeOver(const std::optional<v1::ModeChange>& change,
                                   const std::vector<const v1::PsHello*>& hellos);
  // The servers serve that state: repeats the newest close for those that have missed it.
  void Resume();
  // The servers go back to this cut.
  void RollBack(const v1::ChiefCut& cut);

  // ------------------------------------------------------------- state
  // True between steps of all servers: a snapshot that is taken now has whole steps.
  bool at_boundary() const { return closing_.empty(); }
  // True if a step of a client's closures (not the job runner's) is open and gets no more closures.
  bool has_client_step() const {
    return !members_.empty() && places_end_ == 0 && !closures_->queue().training_waits();
  }
  // True while this chief repeats the close of a former one. The closures before the boundary are
  // settled, but not yet applied everywhere.
  bool repeats_close() const { return repeats_close_; }
  // The first closure of that close; without one, behind all.
  uint64_t first_of_repeated_close() const;
  // The boundary behind the newest closed step.
  const v1::StepPosition& position() const { return position_; }
  const StepCounters& counters() const { return counters_; }
  // "waiting for ps:1 (host:2222) to close step 7"; "" if no close takes long.
  std::string Waiting() const;

 private:
  struct Member {
    uint64_t closure = 0;
    uint32_t index = 0;
    bool heard = false;
    bool not_finite = false;  // its gradient
    int64_t heard_us = 0;
  };

  // The number of closures of the step that begins with this one, if the workers sum its dense
  // gradients in a ring; else 0. The end of the step must be known, and each worker must have a
  // closure, because each owns a part of the sum.
  uint32_t RingClosures(const ClosureSpec& first) const;
  uint64_t closures_per_step() const { return std::max<uint64_t>(1, settings_.closures_per_step); }
  void Apply(const v1::ModeChange& change);
  void Use(const ModeSettings& settings);
  // Lets the closures of an asynchronous cut finish before the mode changes to sync.
  void RunAsyncFirst();
  uint64_t Journal(const v1::ModeChange& change) const;
  bool IsFull() const;
  void CloseIfComplete();
  void AdvanceMode(uint64_t next_place);
  // Decides whether the step that is being closed is skipped, and the scale of the next one.
  void ScaleLoss();
  // Adds the time between the median of the members and the last one.
  void CountWaiting();
  void Drop(uint64_t closure);
  void SendSum(int ps);
  void SendCloseToAll();
  void SendClose(int ps);
  void FinishClosing();

  const CoreContext* const context_;
  Outbox* const outbox_;
  OpenClosures* const closures_;
  ModeSettings settings_;
  std::optional<v1::ModeChange> change_;
  std::optional<ModeSettings> next_;  // a change that is under way
  v1::ModeChange proposed_;           // valid while record_ is not durable
  uint64_t record_ = 0;               // its record; 0: it waits for the boundary
  int64_t iteration_offset_ = 0;

  // The open step.
  v1::StepPosition position_;  // behind the newest step that was sent to be closed
  uint64_t step_try_ = 0;
  std::vector<Member> members_;  // by index
  uint64_t places_end_ = 0;      // the end of the epoch of the job runner's members
  uint64_t next_place_ = 0;      // behind the last member
  uint32_t ring_closures_ = 0;   // RingClosures of the first member
  size_t heard_ = 0;             // members
  int waiting_ = 0;              // clients that wait

  // The step that is being closed.
  v1::CloseStep close_;
  std::vector<Member> closing_members_;  // and those without which it is closed
  int64_t closing_since_us_ = 0;
  bool repeats_close_ = false;
  std::set<int> closing_;                   // the servers that have not acknowledged
  bool clips_ = false;                      // an optimizer clips gradients
  bool clips_by_norm_ = false;              // one clips them by a norm
  std::map<int, uint64_t> close_requests_;  // the newest CloseStep to each server
  std::map<int, uint64_t> summing_;         // SumStep to the servers that have not answered
  // The squares so far, by optimizer and variable.
  std::map<std::pair<uint32_t, std::string>, ExactSum> squares_;

  // Bounded staleness: places that were dispatched and have not ended.
  std::set<uint64_t> running_;
  StepCounters counters_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_STEP_GATE_H_
