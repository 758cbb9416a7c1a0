#ifndef COHORT_CHIEF_API_CHIEF_CHECKPOINTS_H_
#define COHORT_CHIEF_API_CHIEF_CHECKPOINTS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "chief/api/locked_core.h"
#include "chief/api/owned_directory.h"
#include "common/base/serial_thread.h"
#include "common/checkpoint/manifest.h"

namespace cohort {

struct CoordinatorOptions;

// The checkpoints that a running chief takes. The core decides on cuts; this class has the calls
// that ask for one, commits the manifests, and deletes old checkpoints:
//
//   Take, StartOne ──► the core's cut ──► Write ──► disk thread: commit ──► retention thread: delete
//        ▲                                                   │
//        └────────────── OnCutDone ◄──── the core ◄──────────┘
//
// The retention thread exists because a deletion may take long, and the next manifest must not wait
// for it. The pointers in the constructor outlive this object.
class ChiefCheckpoints {
 public:
  // `on_lost`: the directory no longer belongs to this chief. It is called on the disk thread.
  ChiefCheckpoints(const CoordinatorOptions* options, const OwnedDirectory* directory,
                   LockedCore* core, std::function<void(const absl::Status&)> on_lost);

  // ------------------------------------------------------------- the calls; they take the lock
  // Takes a checkpoint and waits until it is committed. Returns its directory. `finished`: it is
  // the job's last one. Errors: see TrainingCluster::Checkpoint.
  absl::StatusOr<std::string> Take(bool finished);
  // The same, for a request from outside of the training loop. Errors: also FailedPrecondition if
  // the job's last checkpoint is committed.
  absl::StatusOr<std::string> TakeUnlessFinished();
  // Starts a checkpoint if none is active.
  absl::Status StartOne();
  // The directory of the newest checkpoint that this incarnation committed, restored or resumed
  // from; "" = none.
  std::string newest() const;
  // The time since this chief has committed or restored a checkpoint; without one, since it
  // started. With the lock of the core.
  Duration age() const;

  // ------------------------------------------------------------- effects; the core's lock is held
  // Adds what the core does not know to the manifest, and commits it on the disk thread.
  void Write(v1::Manifest manifest);
  void OnCutDone(uint64_t cut, const absl::Status& status);
  // The job continues from this checkpoint.
  void SetNewest(std::string directory);

  // ------------------------------------------------------------- the end; for one thread
  // Each commits or deletes what is queued, and ends its thread. Returns false at the deadline.
  // Commits lead to deletions, so end the commits first.
  [[nodiscard]] bool EndCommits(TimePoint deadline) { return disk_.FinishUntil(deadline); }
  [[nodiscard]] bool EndDeletions(TimePoint deadline) { return retention_.FinishUntil(deadline); }

 private:
  // Waits until no cut is active, and no step of the client is open.
  absl::Status AwaitBoundary() ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu());
  absl::StatusOr<std::string> TakeNow(bool finished) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core_->mu());

  struct CutResult {
    absl::Status status;
    std::string path;
  };

  void Commit(v1::Manifest manifest);
  // Deletes what a failed cut has left, and what older ones have.
  void DeleteFailed(const CheckpointId& failed);
  void DeleteOld(const CheckpointId& newest, const std::optional<CheckpointId>& best);

  const CoordinatorOptions* const options_;
  const OwnedDirectory* const directory_;
  LockedCore* const core_;
  const std::function<void(const absl::Status&)> on_lost_;

  std::string newest_ ABSL_GUARDED_BY(core_->mu());
  TimePoint newest_since_ ABSL_GUARDED_BY(core_->mu());
  std::map<uint64_t, CutResult> cuts_done_ ABSL_GUARDED_BY(core_->mu());  // the last ones

  absl::Status retention_failure_;  // what DeleteOld has logged; only retention_ uses it
  SerialThread retention_{"retention"};
  SerialThread disk_{"disk"};  // posts to retention_
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CHIEF_CHECKPOINTS_H_
