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

#include "chief/api/remote_value.h"
#include "chief/core/core_counters.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/security.h"
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

struct CoordinatorOptions {
  ClusterSpec cluster;         // workers and ps; indices without gaps
  std::string job;             // the job's identity: what may not change between two runs of it
  std::string checkpoint_dir;  // seen by the chief and every ps; the journal lies in it
  uint64_t chief_incarnation = 0;
  bool takeover = false;  // from another chief that the tasks hear, or that has the directory
  // Of checkpoint_dir, where the caller has taken it; null: Start does. Let go with the
  // coordinator.
  std::shared_ptr<DirectoryLock> lock;
  std::shared_ptr<const Security> security = Security::LoopbackOnly();
  uint64_t seed = 0;                // of the job
  uint32_t pull_ahead = 0;          // above 0: Unimplemented
  uint32_t closures_in_flight = 0;  // per worker; 0: the default
  uint32_t max_attempts = 0;        // workers that one closure may kill; 0: the default
  double task_timeout_s = 60;  // for tasks at the start, for a lost ps, for a worker to take work
  // Of a worker that has work and tells no result: others get it. Where there are none that get on,
  // one that was given ends the job; the default (0) does not.
  double closure_timeout_s = 0;
  double cut_deadline_s = 0;  // 0: the default
  double flush_limit_s = 5;   // of Flush, on a disk that is only slow
  uint32_t max_to_keep = 5;   // checkpoints; 0: all
  const Clock* clock = nullptr;
  Logger* log = nullptr;  // outlives the coordinator
  // What a call waits for, every few seconds while it does: "waiting for worker:2 (host3:2222), 12
  // s".
  std::function<void(const std::string&)> on_wait;
  // Start has failed, with this. It returns when its threads have ended, which storage that does
  // not answer may hold up.
  std::function<void(const absl::Status&)> on_failed_start;
  // Where not null: once it is true, every call that waits returns Cancelled, Start too.
  const std::atomic<bool>* interrupt = nullptr;
  // Adds to a manifest what the coordinator does not know: the job's spec. Called on another
  // thread.
  std::function<void(v1::Manifest*)> complete_manifest;
  // That manifest is durable: the checkpoint is committed. Must not call the coordinator.
  std::function<void(const v1::Manifest&)> on_committed;
};

// A registered program.
struct StepFunction {
  int program = -1;
};

// A dataset that every worker has its own copy and iterator of: as an argument of a step it stands
// for the next batch of the worker that runs it. How far each worker has read it is a part of
// checkpoints: a worker that is started again, a run that is continued and a cluster that was
// restored go on behind the batches of the closures whose results the chief has (for a restored
// one: had at the checkpoint), a worker of an index that was not there before at the beginning. A
// batch of a closure that was given back or cancelled may be passed, or come again where its worker
// has died. It is told by what its spec reads, its options and the how-manieth of these it is: in
// another life of the chief the same one goes on, and under another `name` it begins anew.
struct PerWorkerDataset {
  int resource = -1;
};

struct DatasetOptions {
  std::string name;  // "" = made from the spec
  uint32_t batch_size = 0;
  std::vector<std::string> features;  // the columns that feed the program's arguments, by position
  bool exactly_once = false;          // batches are asked for by lease
  uint64_t seed = 0;
  // What the caller has read of the spec: a worker that reads something else ends the job. Null:
  // workers read what they find.
  const v1::DataFingerprint* data = nullptr;
};

// Positions [begin, end) of an epoch's permutation.
struct LeaseRange {
  uint64_t epoch = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Where a closure of the job runner lies among the training steps of its job.
struct JobPlace {
  uint64_t place = 0;
  uint64_t places_end = 0;  // of its epoch
};

// A closure with all that can be said about it.
struct ClosureRequest {
  StepFunction step;
  // The dataset's features feed the program's first arguments, `arguments` those after them, the
  // same at every step of the closure. Either may be missing.
  PerWorkerDataset dataset;
  std::vector<Tensor> arguments;
  std::vector<LeaseRange> leases;  // exactly_once: one per step
  bool training = true;            // has pushes
  uint32_t steps = 1;
  std::optional<JobPlace> place;  // by it a restarted job runner makes the closure again
};

// A closure of the job runner that must be scheduled again, after a restart, an error or a restore.
struct UnfinishedPlace {
  uint64_t place = 0;
  uint32_t steps = 0;
};

using WorkerState = WorkerFigures;

// How far the job is. The counters are those of this life of the chief.
struct CoordinatorState : CoreCounters {
  uint64_t steps = 0;  // training steps finished, over all lives and without what was rolled back
  uint64_t next_place = 0;
  uint64_t epoch = 0;  // finished epochs
  uint64_t timeline = 0;
  uint64_t generation = 0;
  uint64_t queued = 0;
  uint64_t in_flight = 0;
  uint64_t journal_refusals = 0;       // told ones: the disk was full, say
  double journal_stalled_seconds = 0;  // how long a record has waited to be durable by now
  std::string waiting_for;             // as on_wait tells it; "" = nothing
  int64_t journal_fsyncs = 0;
  std::optional<TimePoint> first_closure;  // when the first one finished, of this life
  int ready_workers = 0;
  std::vector<WorkerState> workers;  // by index
  std::vector<MetricTotal> metrics;  // folded, of the current epoch
};

// What tf.distribute.coordinator.ClusterCoordinator is to TensorFlow: schedules step functions on
// the workers of a cluster whose variables live on parameter servers. The job runner is one client
// of it; chiefs that people write are others (deploy/examples/custom_loop).
//
//   COHORT_ASSIGN_OR_RETURN(auto coordinator, ClusterCoordinator::Start(options));
//   COHORT_RETURN_IF_ERROR(coordinator->CreateVariables(variables, optimizer, partitioner, ""));
//   COHORT_ASSIGN_OR_RETURN(StepFunction step, coordinator->RegisterStep(program));
//   for (int i = 0; i < 100; ++i) {
//     COHORT_ASSIGN_OR_RETURN(RemoteValue value, coordinator->Schedule(step, dataset));
//   }
//   COHORT_RETURN_IF_ERROR(coordinator->Join());
//
// Errors are ClusterCoordinator's: the first non-retryable one cancels what is in flight and what
// waits (their RemoteValues become Aborted), is raised once by the next Schedule, Join or Done, and
// is then cleared. When it is raised nothing runs any more. A lost parameter server is such an
// error, of code Unavailable with a FailureInfo of role "ps": after it Restore goes back to the
// newest checkpoint. A chief that is fenced by a newer one, cannot write its journal, or has lost
// its checkpoint directory raises the same error for ever. A full disk is waited for: by Start and
// Restore until their time is up, by Shutdown for 30 s, by the others for as long as it is full.
//
// Thread-safe; Schedule, Join and so on are meant for one thread.
class ClusterCoordinator {
 public:
  // Dials all tasks, waits for them, and takes them over. Errors: DeadlineExceeded that names the
  // tasks that are missing; FailedPrecondition where a task works for another chief, says that it
  // is another task, or does not see the checkpoint directory; Unavailable where the directory is
  // another chief's (directory_lock.h); those of the journal.
  static absl::StatusOr<std::unique_ptr<ClusterCoordinator>> Start(
      const CoordinatorOptions& options);
  // As Close.
  ~ClusterCoordinator();
  // Leaves the tasks as they are, after a last settle record: another chief may go on. Waits for
  // what storage holds up for as long as it does, and says so (on_wait): who cannot, leaves it to
  // another thread. Afterwards only state() and layout() are of use. Not thread-safe.
  void Close();

  // Cuts the variables into shards and places them. Servers that hold exactly these, from a former
  // life of this chief, go on with them; else the newest checkpoint of the directory is restored;
  // where there is none the variables are initialized. `placement`: "balanced" (also ""),
  // "round_robin".
  absl::Status CreateVariables(std::span<const v1::VariableSpec> variables,
                               const v1::OptimizerSpec& optimizer,
                               const v1::PartitionerSpec& partitioner, std::string_view placement);

  // Errors, here or of CreateVariables, whichever is called last: those of CheckMessageSizes.
  absl::StatusOr<StepFunction> RegisterStep(const Program& program);
  // Each call makes another iterator, independent of those before, also where the spec is the same.
  // A chief that is started again has those of its former life where it makes them in the same
  // order.
  absl::StatusOr<PerWorkerDataset> CreatePerWorkerDataset(const v1::DatasetSpec& spec,
                                                          const DatasetOptions& options);

  // Returns at once, unless the queue of 262,144 closures is full: then it waits.
  absl::StatusOr<RemoteValue> Schedule(StepFunction step, std::vector<Tensor> arguments);
  absl::StatusOr<RemoteValue> Schedule(StepFunction step, PerWorkerDataset dataset,
                                       std::vector<Tensor> arguments = {});
  absl::StatusOr<RemoteValue> Schedule(ClosureRequest request);

  // Waits until everything that was scheduled is finished.
  absl::Status Join();
  // Join for so long at most: whether everything is finished.
  absl::StatusOr<bool> JoinFor(double seconds);
  // Whether everything is finished; waits only while an error is being made ready.
  absl::StatusOr<bool> Done();

  // Takes a checkpoint and waits until it is committed; training goes on meanwhile. `finished`: it
  // is the job's last. Errors: what kept it from being committed; the one before stays the newest.
  absl::Status Checkpoint(bool finished = false);
  // Begins one, if none is under way; its end is counted and logged.
  absl::Status StartCheckpoint();

  // After a lost ps: waits for it (task_timeout_s; the error names it) and takes the whole cluster
  // back to the newest checkpoint, or to the initial state where there is none.
  absl::Status Restore();

  // The values of all variables, by name, as of now: takes a checkpoint and reads it.
  absl::StatusOr<std::map<std::string, Tensor>> ReadVariables();

  // Ends the job: when that is journaled every task is told, and this returns when their streams
  // are closed (10 s at most). A finished job whose last checkpoint says so is not held by a full
  // disk. Errors: DeadlineExceeded where the journal does not take it in 30 s.
  absl::Status Shutdown(const std::string& reason, bool job_finished);
  // Makes what is finished durable; waits for it, `flush_limit_s` at most, nor for a full disk.
  void Flush();
  // Makes every call that waits return Cancelled, now and later. Thread-safe.
  void Interrupt();

  CoordinatorState state() const;
  // Where the shards are.
  v1::Layout layout() const;
  // The directory of the newest checkpoint that this life has committed, restored or gone on
  // behind; "" = none.
  std::string newest_checkpoint() const;

  // For the job runner.
  std::vector<UnfinishedPlace> Unfinished() const;
  // Journals the epoch's figures and begins those of the next.
  absl::Status EndEpoch();

 private:
  class Impl;
  explicit ClusterCoordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_COORDINATOR_H_
