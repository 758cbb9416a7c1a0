#ifndef COHORT_CHIEF_CORE_CORE_TYPES_H_
#define COHORT_CHIEF_CORE_CORE_TYPES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/closure_spec.h"
#include "chief/core/core_counters.h"
#include "chief/core/job_settings.h"
#include "chief/core/protocol_faults.h"
#include "common/cluster/adoption.h"  // TooFarAhead
#include "common/cluster/cluster_spec.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

// The inputs and outputs of the chief's protocol (coordinator_core.h and its parts). All times are
// microseconds of an injected clock.

// A class that a worker must have to read the data of the job.
struct NeededClass {
  std::string name;    // "source Waves"
  std::string plugin;  // the chief's file that has it; "": the chief's program itself
};

struct CoreOptions : JobSettings {
  // Addresses by index, for messages and routes. The last ones are places for tasks that join
  // (joined_tasks.h): "" while they are free.
  std::vector<std::string> workers;
  std::vector<std::string> ps;
  size_t worker_places = 0;
  size_t ps_places = 0;
  size_t places(Role role) const { return role == Role::kWorker ? worker_places : ps_places; }
  bool continued = false;  // the journal is not empty
  // The layout is known, and tablets have copies: a continued run does not wait for all servers.
  bool misses_servers = false;
  std::string directory_token;              // see AdoptPs
  std::vector<NeededClass> needed_classes;  // those that plugins add
  // A clock that is finer than Tick, for figures; null: the time of the last tick.
  std::function<int64_t()> clock_us;

  size_t queue_capacity = 262'144;  // closures; Schedule refuses more
  uint32_t max_give_backs = 64;     // times that workers may give one closure back
  // Dispatch waits at an id that is so far above the settled watermark. This bounds what cuts and
  // tablets remember after a closure that stays open (ChiefCut.finished, the applied sets).
  uint64_t max_ids_ahead = 262'144;

  int64_t settle_interval_us = 50'000;
  int64_t ping_interval_us = 1'000'000;
  int64_t silence_us = 20'000'000;        // a task that sends nothing for this time is lost
  int64_t probe_patience_us = 3'000'000;  // how long another chief's stream may take to close
  int64_t probe_again_us = 200'000;
  int64_t adopt_grace_us = 5'000'000;  // after this a continued run starts without missing workers
  int64_t join_grace_us = 30'000'000;  // how long a task that has joined may be away
  int64_t set_aside_us = 2'000'000;    // how long a worker that cannot reach a server gets no work
  int64_t cancel_deadline_us = 10'000'000;  // a worker that does not give up its closures is lost
  int64_t snapshot_deadline_us = 60'000'000;
  // A server that reports no progress with one of these for as long has failed it.
  int64_t write_deadline_us = 300'000'000;
  int64_t commit_deadline_us = 60'000'000;  // for the manifest, and for its record in the journal
  int64_t assign_deadline_us = 300'000'000;
  int64_t close_deadline_us = 300'000'000;
  ProtocolFaults test_faults;
};

inline void LeaseToProto(const LeaseRange& lease, v1::Lease* out) {
  out->set_epoch(lease.epoch);
  out->set_begin(lease.begin);
  out->set_end(lease.end);
  if (lease.part != nullptr) *out->mutable_part() = *lease.part;
}

// A task by the core's index. Indices have no gaps.
inline Task WorkerTask(int index) { return {Role::kWorker, index}; }
inline Task PsTask(int index) { return {Role::kPs, index}; }
// True if TF_CONFIG does not name the task: it has joined, or may.
inline bool IsPlace(const CoreOptions& options, Task task) {
  const size_t all = task.role == Role::kWorker ? options.workers.size() : options.ps.size();
  return static_cast<size_t>(task.index) >= all - options.places(task.role);
}
// True for the part of the variables that the worker of the same number owns, as a replica.
inline bool IsReplicasPart(const CoreOptions& options, Task task) {
  const size_t i = static_cast<size_t>(task.index);
  return task.role == Role::kPs && i < options.workers.size() && i < options.ps.size() &&
         options.workers[i] == options.ps[i];
}
// "worker:2"; for the part of a replica "worker:2's part".
inline std::string ShortTaskName(const CoreOptions& options, Task task) {
  return IsReplicasPart(options, task) ? WorkerTask(task.index).ToString() + "'s part"
                                       : task.ToString();
}
// "worker:2 (host3:2222)".
inline std::string TaskName(const CoreOptions& options, Task task) {
  const auto& addresses = task.role == Role::kWorker ? options.workers : options.ps;
  return ShortTaskName(options, task) + " (" + addresses[static_cast<size_t>(task.index)] + ")";
}

// The core's effects. The core calls them while it handles an input; they must not call the core.
class CoreEffects {
 public:
  virtual ~CoreEffects() = default;
  // Sends on the open stream to the task; drops the message if there is none.
  virtual void SendToWorker(int worker, v1::ChiefToWorker message) = 0;
  // The same for a message of which all workers get one large part, `rest`: serialized, and merged
  // into `message` by the receiver.
  virtual void SendSharedToWorker(int worker, v1::ChiefToWorker message,
                                  std::shared_ptr<const std::string> rest) {
    message.MergeFromString(*rest);
    SendToWorker(worker, std::move(message));
  }
  virtual void SendToPs(int ps, v1::ChiefToPs message) = 0;
  // Ends the stream, reports to OnDisconnected, and dials again.
  virtual void Reconnect(Task task, const std::string& why) = 0;
  // Opens a stream to a task that has joined, and again when it ends. HangUp: no more.
  virtual void DialJoined(Task task, const std::string& address) {}
  virtual void HangUp(Task task) {}
  // Creates the next generation above `heard` in the journal's directory; reports to OnGeneration.
  // Errors: OutOfRange if `heard` is TooFarAhead of the existing generations; it creates nothing.
  virtual void TakeGeneration(uint64_t heard) = 0;
  // Reads the whole journal (recovery.h); reports to OnRecovered.
  virtual void ReadJournal() = 0;
  // Appends records in order; reports to OnJournaled when the record is durable.
  virtual void AppendJournal(v1::JournalRecord record) = 0;
  // Adds the job to the manifest and commits it; reports to OnManifestWritten.
  virtual void WriteManifest(v1::Manifest manifest) = 0;

  // The closure has ended. If the status is OK, `result` is its result; the callee may move it.
  virtual void ClosureDone(uint64_t token, const absl::Status& status,
                           v1::ClosureResult* result) = 0;
  virtual void CutDone(uint64_t cut, const absl::Status& status) = 0;
  virtual void RollbackDone(const absl::Status& status) = 0;
  // Log one event, as information or as a warning: a fixed name and a text.
  virtual void Note(const char* event, const std::string& what) = 0;
  virtual void Warn(const char* event, const std::string& what) { Note(event, what); }
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_TYPES_H_
