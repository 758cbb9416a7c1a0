#ifndef COHORT_CHIEF_API_TRAINING_CLUSTER_H_
#define COHORT_CHIEF_API_TRAINING_CLUSTER_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "chief/api/coordinator_state.h"
#include "chief/api/remote_value.h"
#include "chief/core/closure_spec.h"
#include "chief/core/job_settings.h"

namespace cohort {

namespace v1 {
class EpochRecord;
}

// A cluster whose programs, datasets and variables exist: the interface of a training loop. There
// are two implementations: ClusterCoordinator (coordinator.h), and the simulator's, which blocks a
// fiber instead of a thread. The job runner (chief/job) uses this interface.
//
// Errors. The first error that is not retryable cancels the closures that wait or are in flight.
// The next Schedule, Join or JoinFor returns it once, and clears it. If a parameter server is lost,
// the error is Unavailable with a FailureInfo of role "ps", and Restore brings the cluster back.
class TrainingCluster {
 public:
  virtual ~TrainingCluster() = default;

  // Returns at once unless the queue is full; then it waits.
  virtual absl::StatusOr<RemoteValue> Schedule(ClosureSpec spec) = 0;
  // Waits until everything that was scheduled is finished.
  virtual absl::Status Join() = 0;
  // Waits at most `seconds`. Returns true if everything is finished.
  virtual absl::StatusOr<bool> JoinFor(double seconds) = 0;

  // Takes a checkpoint and waits until it is committed; training continues meanwhile. `finished`:
  // it is the job's last one. Errors: the reason why it was not committed; the previous checkpoint
  // then stays the newest.
  virtual absl::Status Checkpoint(bool finished = false) = 0;
  // Starts a checkpoint if none is active, and does not wait for it. The cluster counts and logs
  // its end.
  virtual absl::Status StartCheckpoint() = 0;
  // Waits until every server is there, or one is lost, which Join reports. Waits for
  // task_timeout_s; the error names the server.
  virtual absl::Status AwaitServers() = 0;
  // After a lost server: waits for it and rolls the whole cluster back to the newest checkpoint, or
  // to the initial state if there is none. Waits for task_timeout_s; the error names the server.
  virtual absl::Status Restore() = 0;
  // The same with another checkpoint, by its directory.
  virtual absl::Status RestoreFrom(const std::string& checkpoint) = 0;

  // Changes the consistency mode while the job runs, and waits until the change is durable. Errors:
  // InvalidArgument if the fields do not fit the mode; the reason why the mode stays as it was.
  virtual absl::Status SetMode(const ModeSettings& request) = 0;

  // Tablets begin to move to other servers, while the job trains. Errors: InvalidArgument for a
  // server that does not exist, or is the last one; FailedPrecondition if tablets cannot move now.
  virtual absl::Status MoveTablets(const TabletMove& move) = 0;
  // See CoordinatorCore::FenceWorker. The caller keeps fences for the chief that is started next.
  virtual absl::Status FenceWorker(int worker, bool fenced, bool again) = 0;

  // Sets the learning rate of all optimizers (-1: their own again) from the next update on, and
  // waits until the change is durable and every server has it. `by_user`: it outlives a rollback,
  // and a callback does not change it at the same place, and the call waits for task_timeout_s.
  // Errors: the rate may or may not have changed; if a server is lost, Join returns that error;
  // DeadlineExceeded names the tasks that do not have it.
  virtual absl::Status SetLearningRate(double rate, bool by_user) = 0;

  // While it is paused, no training closure begins; those that run end.
  virtual void SetPaused(bool paused) = 0;

  // Closures of the job runner that must be scheduled again, by place.
  virtual std::vector<UnfinishedClosure> Unfinished() const = 0;
  // Journals the epoch's metrics and starts those of the next epoch. `record`: what the epoch gave,
  // for History; null: the job has no history.
  virtual absl::Status EndEpoch(const v1::EpochRecord* record) = 0;
  // The records that an earlier incarnation has journaled since the newest rollback or start.
  virtual std::vector<v1::EpochRecord> History() const = 0;
  // Ends the job: when the end is durable, asks every task to end, and waits for that (10 s at
  // most). If the last checkpoint records that the job is finished, a full disk does not delay this
  // call. Errors: DeadlineExceeded if the journal does not accept the end within 30 s.
  virtual absl::Status Shutdown(const std::string& reason, bool job_finished) = 0;

  virtual CoordinatorState state() const = 0;
  // The directory of the newest checkpoint that this incarnation committed, restored or resumed
  // from; "" = none.
  virtual std::string newest_checkpoint() const = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_TRAINING_CLUSTER_H_
