#ifndef COHORT_CHIEF_CORE_MODE_SWITCH_H_
#define COHORT_CHIEF_CORE_MODE_SWITCH_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "chief/core/core_context.h"
#include "chief/core/open_closures.h"
#include "chief/core/outbox.h"

namespace cohort {

// The boundary at which the first step of a job begins.
v1::StepPosition FirstBoundary();
// The boundary at which a cut was taken.
v1::StepPosition PositionOf(const v1::ChiefCut& cut);

// The mode of the job, and the change to another one:
//
//   steady ──(1) Request──► waits ──(2) Propose──► journaling ──(3) OnJournaled──► steady
//      ▲                      └──────────────────────┴──(4) RollBack──┐
//      └──────────────────────────────────────────────────────────────┘
//
// (1) A user asks for the mode, or a restarted chief has to. No closure of the new mode begins. (2)
// No closure of the old mode runs, and the open step is closed. (3) The record is durable: the mode
// counts. (4) A rollback ends the change at the boundary of its cut.
class ModeSwitch {
 public:
  ModeSwitch(const CoreContext* context, Outbox* outbox, OpenClosures* closures);

  const ModeSettings& settings() const { return settings_; }
  bool sync() const { return settings_.mode == ConsistencyMode::kSync; }
  // The change of the mode that a user has made in this job; none: the mode is the job's.
  const std::optional<v1::ModeChange>& change() const { return change_; }
  bool changing() const { return next_.has_value(); }
  // True in the state `waits`: edge (2) is possible.
  bool waits() const { return next_.has_value() && record_ == 0; }
  // What async mode adds to a place to get the optimizer's iteration.
  int64_t iteration_offset() const { return sync() ? 0 : iteration_offset_; }
  // How many closures one worker may have, if `workers` share the work.
  size_t ShareOf(size_t workers) const;

  // Edge (1). `clips`: an optimizer clips gradients. Errors: FailedPrecondition if another change
  // is under way, closures are queued that the mode does not allow, or other tasks would have to
  // clip gradients.
  absl::Status Request(const ModeSettings& settings, bool clips);
  // Edge (2). `boundary`: where the open step begins. Outside sync mode the change counts from
  // `next_place`.
  void Propose(const v1::StepPosition& boundary, uint64_t next_place);
  // Edge (3). Returns true if the mode has changed; change() has the boundary.
  bool OnJournaled(uint64_t record);
  // A restarted chief continues with the last change of the journal.
  void TakeOver(const std::optional<v1::ModeChange>& change);
  // Lets the closures of an asynchronous cut finish before the mode changes to sync.
  void RunAsyncFirst(const v1::StepPosition& boundary);
  // Edge (4). The mode itself is not rolled back.
  void RollBack(const v1::StepPosition& boundary);

 private:
  void Apply(const v1::ModeChange& change);
  void Use(const ModeSettings& settings);
  uint64_t Journal(const v1::ModeChange& change) const;

  const CoreContext* const context_;
  Outbox* const outbox_;
  OpenClosures* const closures_;
  ModeSettings settings_;
  std::optional<v1::ModeChange> change_;
  std::optional<ModeSettings> next_;  // a change that is under way
  v1::ModeChange proposed_;           // journaling: the change
  uint64_t record_ = 0;               // journaling: its record
  int64_t iteration_offset_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_MODE_SWITCH_H_
