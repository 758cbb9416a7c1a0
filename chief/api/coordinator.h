#ifndef COHORT_CHIEF_API_COORDINATOR_H_
#define COHORT_CHIEF_API_COORDINATOR_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/coordinator_state.h"
#include "chief/api/remote_value.h"
#include "chief/api/training_cluster.h"
#include "chief/core/closure_spec.h"
#include "chief/core/job_settings.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/graph/program.h"
#include "common/tensor/tensor.h"

namespace cohort::v1 {
class DataFingerprint;
class DatasetSpec;
class Layout;
class Manifest;
class OptimizerSpec;
class PartitionerSpec;
class VariableSpec;
}  // namespace cohort::v1

namespace cohort {

class DirectoryLock;
class Security;

struct CoordinatorOptions : JobSettings {
  ClusterSpec cluster;  // workers and ps; indices without gaps
  // The lock of checkpoint_dir if the caller has taken it; null: Start takes it. Released with the
  // coordinator.
  std::shared_ptr<DirectoryLock> lock;
  std::shared_ptr<const Security> security;  // null: plaintext, on loopback only
  std::string join_bind;                     // "host:port" at which workers may join; "": none may
  // Files of --plugin. Start loads those that LoadPlugins has not loaded before.
  std::vector<std::string> plugins;
  // That of the newest checkpoint, if nothing that decides it has changed since; or null. With
  // copies a chief then starts without servers that are lost.
  std::shared_ptr<const v1::Layout> former_layout;
  // How long Start, and the first restore after it, wait for tasks; 0: task_timeout_s.
  double start_timeout_s = 0;
  double flush_limit_s = 5;  // how long Flush waits for a slow disk
  uint32_t max_to_keep = 5;  // checkpoints; 0: all
  const Clock* clock = nullptr;
  Logger* log = nullptr;  // outlives the coordinator
  // Gets the reason why a call waits, every few seconds: "waiting for worker:2 (host3:2222), 12 s".
  std::function<void(const std::string&)> on_wait;
  // Gets the error of a failed Start at once. Start itself returns when its threads have ended, and
  // storage that does not answer may delay it.
  std::function<void(const absl::Status&)> on_failed_start;
  // Null, or a flag. When it is true, every call that waits returns Cancelled, including Start.
  const std::atomic<bool>* interrupt = nullptr;
  // Adds the fields that the coordinator does not know to a manifest: the job's spec. The
  // coordinator calls it on another thread.
  std::function<void(v1::Manifest*)> complete_manifest;
  // Returns an error if the job must not continue from this checkpoint. It may read the disk. Null:
  // a checkpoint of another `job` is refused.
  std::function<absl::Status(const v1::Manifest&)> check_manifest;
  // Called when that manifest is durable: the checkpoint is committed. It must not call the
  // coordinator.
  std::function<void(const v1::Manifest&)> on_committed;
  // Gets how each checkpoint has ended, after it has, on a thread of its own that may block.
  std::function<void(const absl::Status&)> on_cut_done;
};

struct DatasetOptions {
  std::string name;  // "": derived from the spec
  uint32_t batch_size = 0;
  std::vector<std::string> features;  // the columns that feed the program's arguments, by position
  bool exactly_once = false;          // closures name their batches by lease
  bool stream = false;                // instead: leases name files (visitation stream)
  uint64_t seed = 0;
  // The data that the caller read with this spec. A worker that reads different data ends the job.
  // Null: workers read the data that they find.
  const v1::DataFingerprint* data = nullptr;
  bool training = true;  // random transforms are active
};

// Schedules step functions on the workers of a cluster whose variables live on parameter servers,
// as tf.distribute.coordinator.ClusterCoordinator does for TensorFlow. The job runner is one client
// of it; a user's own chief is another (deploy/examples/custom_loop).
//
//   COHORT_ASSIGN_OR_RETURN(auto coordinator, ClusterCoordinator::Start(options));
//   COHORT_RETURN_IF_ERROR(coordinator->CreateVariables(variables, optimizer, partitioner, ""));
//   COHORT_ASSIGN_OR_RETURN(StepFunction step, coordinator->RegisterStep(program));
//   for (int i = 0; i < 100; ++i) {
//     COHORT_ASSIGN_OR_RETURN(RemoteValue value, coordinator->Schedule(step, dataset));
//   }
//   COHORT_RETURN_IF_ERROR(coordinator->Join());
//
// Errors follow TensorFlow's ClusterCoordinator. The first error that is not retryable cancels the
// closures that wait or are in flight; their RemoteValues become Aborted. When no closure runs
// anymore, the next Schedule, Join or Done returns the error once, and clears it. A lost parameter
// server is such an error, with code Unavailable and a FailureInfo of role "ps"; Restore then goes
// back to the newest checkpoint. If a newer chief has fenced this one, the journal cannot be
// written, or the checkpoint directory is lost, every call returns the same error from then on.
//
// If the disk is full, calls wait: Start and Restore until their timeout, Shutdown for 30 s, the
// others until the disk has room.
//
// Thread-safe; Schedule, Join and so on are meant for one thread.
class ClusterCoordinator : public TrainingCluster {
 public:
  // Dials all tasks, waits for them, and adopts them. Errors: DeadlineExceeded that names the
  // missing tasks; FailedPrecondition if a task works for another chief, is not the expected
  // task, or does not see the checkpoint directory; Unavailable if another chief has the
  // directory (directory_lock.h); those of the journal. The destructor calls Close.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Start(
      const CoordinatorOptions& options);
  // Writes a last settle record and leaves the tasks as they are: another chief may continue. If
  // storage does not answer, Close waits for it and reports the wait to on_wait; a caller that
  // cannot wait uses another thread. After Close only state() and layout() are useful. Not
  // thread-safe.
  virtual void Close() = 0;

  // Cuts the variables into shards and places them. If the servers hold exactly these variables
  // from an earlier incarnation of this chief, they keep them. Otherwise it restores the newest
  // checkpoint of the directory; if there is none, it initializes the variables. `placement`:
  // "balanced" (also ""), "round_robin". `optimizers`: those that VariableSpec.optimizer counts;
  // one optimizer is that of all variables, unless they name another.
  virtual absl::Status CreateVariables(std::span<const v1::VariableSpec> variables,
                                       std::span<const v1::OptimizerSpec> optimizers,
                                       const v1::PartitionerSpec& partitioner,
                                       std::string_view placement) = 0;
  absl::Status CreateVariables(std::span<const v1::VariableSpec> variables,
                               const v1::OptimizerSpec& optimizer,
                               const v1::PartitionerSpec& partitioner, std::string_view placement);

  // Errors: those of CheckMessageSizes, from this call or CreateVariables, whichever comes last. If
  // an optimizer clips gradients, CreateVariables must be called first (except in mode sync); it
  // returns FailedPrecondition otherwise.
  virtual absl::StatusOr<StepFunction> RegisterStep(const Program& program) = 0;
  // Each call creates a new iterator, even for an equal spec. A restarted chief gets the iterators
  // of its earlier incarnation if it creates them in the same order.
  virtual absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(
      const v1::DatasetSpec& spec, const DatasetOptions& options) = 0;

  // Return at once unless the queue of 262,144 closures is full; then they wait.
  using TrainingCluster::Schedule;
  absl::StatusOr<RemoteValue> Schedule(StepFunction step, std::vector<Tensor> arguments) {
    return Schedule({.step = step, .arguments = std::move(arguments)});
  }
  absl::StatusOr<RemoteValue> Schedule(StepFunction step, PerWorkerDataset dataset,
                                       std::vector<Tensor> arguments = {}) {
    return Schedule({.step = step, .dataset = dataset, .arguments = std::move(arguments)});
  }
  // True if everything is finished. Waits only while an error is becoming ready.
  virtual absl::StatusOr<bool> Done() = 0;

  // Takes a checkpoint beside the training loop, and returns its directory. Thread-safe. Errors:
  // those of Checkpoint; FailedPrecondition if the job's last checkpoint is committed, because the
  // newest one must remain the last one.
  virtual absl::StatusOr<std::string> CheckpointNow() = 0;
  // Takes a checkpoint and returns the values of all variables in it, by name.
  virtual absl::StatusOr<std::map<std::string, Tensor>> ReadVariables() = 0;

  // Makes finished closures durable. Waits at most `flush_limit_s`, and not for a full disk.
  virtual void Flush() = 0;
  // Makes every call that waits return Cancelled, now and later. Thread-safe.
  virtual void Interrupt() = 0;

  // Returns the shards and their servers.
  virtual v1::Layout layout() const = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_COORDINATOR_H_
