#ifndef COHORT_CHIEF_CORE_CLUSTER_ADOPTION_H_
#define COHORT_CHIEF_CORE_CLUSTER_ADOPTION_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "chief/core/core_context.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"

namespace cohort {

// Starts a chief: takes it from kProbing to kReady (coordinator_core.h draws the phases). Each
// input returns the phase that follows, or the reason why the chief cannot run.
class ClusterAdoption {
 public:
  ClusterAdoption(const CoreContext* context, Outbox* outbox, Membership* membership)
      : context_(context), outbox_(outbox), membership_(membership) {}

  // The first tick has come: the time limits of the start count from now.
  void Begin() { phase_since_us_ = context_->now_us; }
  // A task has sent a message, or time has passed.
  absl::StatusOr<CorePhase> Advance();
  // Takes the answer to TakeGeneration.
  absl::StatusOr<CorePhase> OnGeneration(const absl::StatusOr<uint64_t>& generation);
  // Writes the JournalStart of this incarnation. The journal was read, and the parts have taken
  // over its state.
  CorePhase WriteStart(bool from_manifest);
  // Returns true once, when the JournalStart is durable.
  bool IsStarted(uint64_t record) const {
    return context_->phase == CorePhase::kStarting && record >= start_record_;
  }
  // A task refuses this chief. Returns an error if the task belongs to a newer chief; otherwise
  // dials the task again.
  absl::Status OnFenced(Task task, const v1::Fenced& fenced);

 private:
  bool EnoughWorkers(Link at_least) const;
  bool EnoughServers(Link at_least) const;

  const CoreContext* const context_;
  Outbox* const outbox_;
  Membership* const membership_;
  int64_t phase_since_us_ = 0;  // when the chief began to probe or adopt tasks
  uint64_t start_record_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CLUSTER_ADOPTION_H_
