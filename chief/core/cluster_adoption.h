#ifndef COHORT_CHIEF_CORE_CLUSTER_ADOPTION_H_
#define COHORT_CHIEF_CORE_CLUSTER_ADOPTION_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "chief/core/core_context.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"

namespace cohort {

// The start of a chief, from kProbing to kReady (coordinator_core.h draws the phases). Each input
// returns the phase from now on, or why the chief cannot run.
class ClusterAdoption {
 public:
  ClusterAdoption(const CoreContext* context, Outbox* outbox, Membership* membership)
      : context_(context), outbox_(outbox), membership_(membership) {}

  // The first tick: the clock of the start runs from now on.
  void Begin() { phase_since_us_ = context_->now_us; }
  // A task was heard, or time has passed.
  absl::StatusOr<CorePhase> Advance();
  // The answer to TakeGeneration.
  absl::StatusOr<CorePhase> OnGeneration(const absl::StatusOr<uint64_t>& generation);
  // The journal was read and the parts have taken it over: writes the JournalStart of this life.
  CorePhase WriteStart(bool from_manifest);
  // True once, when the JournalStart is durable.
  bool IsStarted(uint64_t record) const {
    return context_->phase == CorePhase::kStarting && record >= start_record_;
  }
  // A task refuses this chief. An error if a newer chief has it; else the task is dialed again.
  absl::Status OnFenced(Task task, const v1::Fenced& fenced);

 private:
  bool EnoughWorkers(Link at_least) const;

  const CoreContext* const context_;
  Outbox* const outbox_;
  Membership* const membership_;
  int64_t phase_since_us_ = 0;  // since when tasks are probed or adopted
  uint64_t start_record_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLUSTER_ADOPTION_H_
