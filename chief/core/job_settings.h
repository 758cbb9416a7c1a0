#ifndef COHORT_CHIEF_CORE_JOB_SETTINGS_H_
#define COHORT_CHIEF_CORE_JOB_SETTINGS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/fnv1a.h"
#include "common/graph/consistency_mode.h"
#include "common/graph/loss_scale.h"

namespace cohort::v1 {
class JobIdentity;
class NumericFingerprint;
}  // namespace cohort::v1

namespace cohort {

// How the updates of a job's workers are ordered: the part of the settings that may change while
// the job runs.
struct ModeSettings {
  ConsistencyMode mode = ConsistencyMode::kAsync;
  uint32_t closures_per_step = 1;  // sync: of a step; bounded: of what `staleness` counts
  BackupWork backup_work = BackupWork::kNone;  // sync
  uint32_t replicas_to_aggregate = 0;          // kDrop: closures that close a step
  uint32_t staleness = 0;                      // bounded: steps

  uint64_t places_per_step() const { return closures_per_step == 0 ? 1 : closures_per_step; }
  bool operator==(const ModeSettings&) const = default;
};

// What a user, or LoadWatch, asks of the tablets' places (chief/core/homes.h).
struct TabletMove {
  enum class What : uint8_t { kAdd, kDrain, kReturn, kRebalance, kFence, kMove };
  What what = What::kRebalance;
  int ps = 0;           // kDrain, kReturn, kFence; kMove: where the tablet should be
  uint32_t tablet = 0;  // kMove
  std::string address;  // kAdd: where the server is
};

// What the chief does with a task that calculates otherwise than the others (NumericFingerprint).
// The weights of a synchronous job depend on no task only if all tasks calculate alike.
enum class Determinism : uint8_t {
  kOff,      // nothing
  kWatched,  // it logs the task
  kRequired  // it refuses the task
};

// The settings of a job that the user of the API chooses and the core reads. CoordinatorOptions and
// CoreOptions are derived from them, so that nothing between the two copies a setting by name.
struct JobSettings : ModeSettings {
  // Names the job: two runs of one job have the same text. It contains a hash of `identity`.
  std::string job;
  std::shared_ptr<const v1::JobIdentity>
      identity;  // what must not change in the job; null: unknown
  // The hash of all that gives the closures of the job their meaning: its programs and batches. If
  // it changes, servers that are alive do not keep their state, and the chief restores a
  // checkpoint.
  uint64_t closures_hash = kFnv1aBasis;
  std::string checkpoint_dir;  // seen by the chief and every ps; the journal lies in it
  // A safetensors file with values that variables begin with, by their names; "": all begin with
  // those of their initializers. Every ps must see it, and it must stay until the first checkpoint.
  std::string initial_values;
  uint64_t chief_incarnation = 0;
  bool takeover = false;  // from another chief that owns the tasks or the directory
  // Tasks of TF_CONFIG are missing here, so the others have other numbers than there.
  bool renumbered = false;
  uint64_t seed = 0;
  // The job file has another mode than the checkpoint: it counts, and not a change that a user has
  // made in a running job before.
  bool mode_is_new = false;
  Determinism deterministic = Determinism::kOff;
  // How the workers of the checkpoint calculated from which the job continues; null: unknown. Then
  // the first worker that reports decides.
  std::shared_ptr<const v1::NumericFingerprint> fingerprint;
  // How the loss is scaled (float16): in mode sync the chief has the scale, in others each worker.
  LossScaling loss_scaling;
  // Each worker owns the variables of the server with its number, and the workers sum the dense
  // gradients of synchronous steps among themselves, if each of them has a closure of the step.
  bool ring = false;
  bool hashed_rows = false;  // the partitioner shares rows by hash
  // Each tablet has a copy on another server (docs/design/copies.md).
  bool copies = false;
  bool rebalance = false;  // tablets of busy servers move by themselves (chief/core/load_watch.h)
  // How many of its own steps ahead a worker may pull the values of a step. Mode async only.
  uint32_t pull_ahead = 0;
  // Workers keep copies of rows (common/exchange/hot_rows.h), which synchronous steps do not read.
  bool hot_rows = false;
  uint32_t closures_in_flight = 16;  // per worker
  // AssignTablets has these.
  uint64_t table_memory_bytes = 0;
  std::string table_directory;
  uint32_t max_attempts = 5;   // workers that one closure may kill
  double task_timeout_s = 60;  // for tasks at the start, for a lost ps, for a worker to take work
  // A connected worker that has work and reports no result for this time loses the work to other
  // workers, if there are any. If no worker makes progress, the job ends only if the user asks.
  double closure_timeout_s = 600;
  bool closure_timeout_ends_job = false;
  // A server that is away for longer is lost, and the job goes back to its last checkpoint. One
  // that returns as another process is lost at once. A network that is cut for seconds costs
  // nothing.
  double server_grace_s = 30;
  // The last checkpoint has the averages of variables (use_ema) as their values.
  bool ends_with_averages = true;
  uint32_t full_every = 1;     // each n-th checkpoint has all rows, the others those that changed
  double cut_deadline_s = 10;  // then closures in flight enter the cut as pending

  int64_t closure_timeout_us() const { return MicrosFromSeconds(closure_timeout_s); }
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOB_SETTINGS_H_
