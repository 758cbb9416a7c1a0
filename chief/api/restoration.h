#ifndef COHORT_CHIEF_API_RESTORATION_H_
#define COHORT_CHIEF_API_RESTORATION_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "chief/api/chief_checkpoints.h"
#include "chief/api/locked_core.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

struct CoordinatorOptions;

// The calls that make the servers serve the variables:
//
//   ResumeOrRestore ──► live servers have them: the core resumes
//         └───────────► Restore: wait for all servers, roll back to the newest checkpoint that is
//                       valid; again while a server is lost on the way, until a timeout
//
// The pointers in the constructor outlive this object.
class Restoration {
 public:
  Restoration(const CoordinatorOptions* options, LockedCore* core, ChiefCheckpoints* checkpoints)
      : options_(options), core_(core), checkpoints_(checkpoints) {}

  // ------------------------------------------------------------- the calls; they take the lock
  // After JobDefinition::SetVariables.
  absl::Status ResumeOrRestore();
  // See TrainingCluster.
  absl::Status AwaitServers();
  // `checkpoint`: its directory; "": the newest one that is valid. Errors: DataLoss if there are
  // checkpoints and none of them is valid; FailedPrecondition if they belong to another job;
  // DeadlineExceeded that names the missing server.
  absl::Status Restore(const std::string& checkpoint = "");

  // ------------------------------------------------------------- effect; the core's lock is held
  void OnRollbackDone(const absl::Status& status);

 private:
  // `limit_s`: how long the whole wait is.
  absl::Status RestoreWithin(double limit_s, const std::string& checkpoint);
  absl::Status WaitForServers(TimePoint deadline, double limit_s);
  absl::Status RollBackOnce(const std::string& checkpoint);
  // Returns an error if the job must not continue from this checkpoint.
  absl::Status CheckManifest(const v1::Manifest& manifest) const;
  // Returns the newest checkpoint that is valid, or nullopt for the initial state.
  absl::StatusOr<std::optional<CheckpointEntry>> NewestUsable() const;
  // Returns the checkpoint to restore, or nullopt for the initial state. Sets the manifest.
  absl::StatusOr<std::optional<CheckpointEntry>> Choose(const std::string& checkpoint,
                                                        v1::Manifest* manifest) const;
  // Returns the newest checkpoint of this timeline, from which live servers have continued. If it
  // has none, returns the one from which the timeline began: a rollback has discarded newer ones on
  // disk. `began_from`: its manifest; "" = the beginning.
  absl::StatusOr<std::string> NewestOf(uint64_t timeline, const std::string& began_from) const;

  const CoordinatorOptions* const options_;
  LockedCore* const core_;
  ChiefCheckpoints* const checkpoints_;
  std::optional<absl::Status> done_ ABSL_GUARDED_BY(core_->mu());  // how the last rollback ended
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_RESTORATION_H_
