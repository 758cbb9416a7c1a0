#ifndef COHORT_CHIEF_CORE_SERVED_VARIABLES_H_
#define COHORT_CHIEF_CORE_SERVED_VARIABLES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "chief/core/core_context.h"
#include "chief/core/homes.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"
#include "chief/core/recovery.h"
#include "chief/core/rollback.h"
#include "chief/core/servers.h"

namespace cohort {

// The job's variables: their layout, their timeline, and whether the servers serve them.
//
//   not served ─(1) Resume─────────────────────────────────────────────────────► served
//       ▲ ▲                                                                        │ │
//       │ └─────────────────────(2) StopServing: a ps is lost──────────────────────┘ │
//       └───────────────────────(3) PlanRollback─────────────────────────────────────┘
//   not served ─(4) OnTimelineRaised: at a higher timeline─► not served ─(5) OnAssigned─► served
//
// (1) The servers that are there have all tablets. (3) A rollback begins. (4) Its record is
// durable. (5) All servers have the tablets of the cut. Closures run only while the variables are
// served.
class ServedVariables {
 public:
  ServedVariables(const CoreContext* context, const Outbox* outbox, const Membership* membership,
                  Servers* servers, Homes* homes)
      : context_(context),
        outbox_(outbox),
        membership_(membership),
        servers_(servers),
        homes_(homes) {}

  // Takes over the state that the journal describes.
  void Restore(const Recovered& recovered);
  void SetLayout(v1::Layout layout, uint64_t layout_hash);
  // Notes the timeline at which an adopted worker has worked.
  void OnWorkerTimeline(uint64_t timeline);
  // Returns an error if a worker has worked at a timeline of this job that the journal does not
  // know. Such a worker accepts nothing at the chief's timeline. The chief's next incarnation
  // starts above both timelines.
  absl::Status CheckWorkerTimeline(Task worker) const;

  // True if edge (1) is possible.
  bool CanResume() const;
  // Edges (1), (2), (4), (5).
  void Resume();
  void StopServing() { served_ = false; }
  void OnTimelineRaised(const RollbackTarget& target);
  void OnAssigned(const RollbackTarget& target);
  // Edge (3), to the cut of `manifest` (in the file `path`), or to the initial state if it is null.
  // Chooses the timeline and the term. `reserved_end`: the first closure id that is not reserved.
  // Errors: FailedPrecondition if a task reports a timeline that cannot exist.
  absl::StatusOr<RollbackTarget> PlanRollback(const v1::Manifest* manifest, const std::string& path,
                                              uint64_t reserved_end);

  void SendRoutes(int worker) const {
    if (served_) homes_->SendRoutes(worker, layout_);
  }

  bool served() const { return served_; }
  bool was_served() const { return was_served_; }
  bool has_layout() const { return has_layout_; }
  const v1::Layout& layout() const { return layout_; }
  // The manifest that the timeline began from; "" = the initial state, or not known.
  const std::string& began_from() const { return began_from_; }

 private:
  const CoreContext* const context_;
  const Outbox* const outbox_;
  const Membership* const membership_;
  Servers* const servers_;
  Homes* const homes_;
  bool served_ = false;
  bool was_served_ = false;  // in this incarnation, so the next assignment is a rollback
  bool has_layout_ = false;
  v1::Layout layout_;
  uint64_t layout_hash_ = 0;      // hash of layout_
  uint64_t journal_hash_ = 0;     // hash of the tablets that the journal describes
  uint64_t last_timeline_ = 0;    // the highest that a rollback has requested
  uint64_t worker_timeline_ = 0;  // the highest that an adopted worker reported
  std::string began_from_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_SERVED_VARIABLES_H_
