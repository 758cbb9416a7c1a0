#ifndef COHORT_CHIEF_JOB_JOB_CONTROL_H_
#define COHORT_CHIEF_JOB_JOB_CONTROL_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "chief/api/coordinator_state.h"
#include "common/base/log.h"

namespace cohort {

// What a user asks of `set-mode`. A field without a value keeps what the job has.
struct ModeChange {
  ConsistencyMode mode = ConsistencyMode::kAsync;
  std::optional<uint32_t> closures_per_step;
  std::optional<BackupWork> backup_work;
  std::optional<uint32_t> replicas_to_aggregate;
  std::optional<uint32_t> staleness;
};

// Returns the request for a job that has the mode `now` and this number of workers. Fields of
// another mode are dropped. The default of closures_per_step is the number of workers. Errors:
// InvalidArgument if the change names a field that its mode does not have, or a wrong number.
absl::StatusOr<ModeSettings> ModeAfter(const ModeChange& change, const ModeSettings& now,
                                       uint32_t workers);

// How far a job has read its stream (visitation stream).
struct StreamFigures {
  std::string place;        // where files appear: "in/*.csv"
  uint64_t files_done = 0;  // the newest checkpoint has all of their records
  uint64_t files_in_work = 0;
  uint64_t files_waiting = 0;      // complete, and no record of them is read
  uint64_t files_not_counted = 0;  // those whose records are not counted yet
  uint64_t records_waiting = 0;    // records of counted files that are not read
  uint64_t bytes_waiting = 0;
  double oldest_waiting_seconds = 0;  // since the last change of the oldest waiting file
  uint64_t files_left_out = 0;        // those with a FILE.skip
  bool ended = false;                 // no file will come
};

// The state of a job, for its user.
struct JobStatus {
  std::string job;
  std::string activity;  // "training"
  uint64_t epochs = 0;   // that the job asks for; 0: it has a stream, whose windows are counted
  uint64_t steps = 0;    // that these epochs have; 0: the stream has no end yet
  std::optional<StreamFigures> stream;  // nullopt: its data is no stream
  double steps_per_second = 0;
  double pace = 0;  // steps per second with pauses, from which the time left follows; 0: unknown
  std::optional<double> learning_rate;    // in force; nullopt: unknown
  std::optional<CoordinatorState> state;  // nullopt: the cluster has not started
  std::string newest_checkpoint;          // its directory; "": none
};

// A running job as `cohort ctl` sees it. Called by the threads of the control socket.
class ControlledJob {
 public:
  virtual ~ControlledJob() = default;
  virtual JobStatus Status() const = 0;
  // Takes a checkpoint and returns its directory.
  virtual absl::StatusOr<std::string> TakeCheckpoint() = 0;
  // Takes a checkpoint and makes the job end. Returns the checkpoint's directory; "": the job has
  // not begun to train.
  virtual absl::StatusOr<std::string> Stop() = 0;
  // Returns the mode that the job has then.
  virtual absl::StatusOr<ModeSettings> ChangeMode(const ModeChange& change) = 0;
  // Returns the rate that the next update has.
  virtual absl::StatusOr<double> SetLearningRate(double rate) = 0;
  // Returns how many tablets move.
  virtual absl::StatusOr<uint64_t> MoveTablets(const TabletMove& move) = 0;
  // A fenced worker gets no work until its fence is lifted.
  virtual absl::Status FenceWorker(int worker, bool fenced) = 0;
  // While it is paused, no step begins.
  virtual absl::Status SetPaused(bool paused) = 0;
  // `epochs`: how many the job has in all.
  virtual absl::Status Extend(uint64_t epochs) = 0;
};

// The status as a JSON object; docs/cluster.md lists its keys.
std::string StatusJsonText(const JobStatus& status);

// Answers a command of `cohort ctl` with a JSON object:
//
//   status      the fields of JobStatus; docs/cluster.md lists the keys
//   checkpoint  {"checkpoint": DIRECTORY}
//   stop        {"checkpoint": DIRECTORY}
//   set-mode    {"strategy": {...}}
//   set         {"learning_rate": 0.001}
//   add-ps      {"address": "host:2222"}
//   drain-ps    {"tablets_moving": 3}
//   return-ps   {"tablets_moving": 0}
//   rebalance   {"tablets_moving": 3}
//   fence       {"task": "ps:1", "fenced": true}
//   unfence     {"task": "ps:1", "fenced": false}
//   pause       {"paused": true}
//   resume      {"paused": false}
//   extend      {"epochs": 20}
//
// `request` is a JSON object, or empty. That of set-mode is {"mode": "sync", ...}: other keys are
// those of `strategy` in the job file, and each may be absent. Those of drain-ps and return-ps are
// {"ps": 2}, those of fence and unfence {"task": "worker:1"}, those of set, add-ps and extend as
// their answers. Errors: InvalidArgument for another command or request; those of the job.
absl::StatusOr<std::string> AnswerJobRequest(const std::string& command, const std::string& request,
                                             ControlledJob* job, Logger* log);

// The names of the job file. Errors: InvalidArgument that lists them.
absl::StatusOr<ConsistencyMode> ParseConsistencyMode(const std::string& name);
absl::StatusOr<BackupWork> ParseBackupWork(const std::string& name);
// "sync, closures_per_step 3, backup_work none": the mode, and the keys that it has.
std::string TextOf(const ModeSettings& mode);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_CONTROL_H_
