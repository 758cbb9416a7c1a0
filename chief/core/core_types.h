#ifndef COHORT_CHIEF_CORE_CORE_TYPES_H_
#define COHORT_CHIEF_CORE_CORE_TYPES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/core_counters.h"
#include "common/cluster/cluster_spec.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"

namespace cohort {

// What the chief's protocol (coordinator_core.h and its parts) is given and gives. All times are
// microseconds of an injected clock.

// Planted bugs, with which the simulator proves that it would find them. Set by tests alone.
struct CoreTestFaults {
  bool publish_before_durable = false;  // the watermark is told before its record is durable
};

struct CoreOptions {
  std::string job;                   // the job's identity: tasks of another are not adopted
  std::vector<std::string> workers;  // addresses by index, for messages and routes
  std::vector<std::string> ps;
  uint64_t chief_incarnation = 0;
  bool continued = false;       // the journal is not empty
  bool takeover = false;        // adopt tasks that hear another chief
  std::string directory_token;  // see AdoptPs
  std::string checkpoint_dir;
  uint64_t seed = 0;
  uint32_t pull_ahead = 0;
  bool deterministic = false;

  size_t queue_capacity = 262'144;   // closures; then Schedule waits
  uint32_t closures_in_flight = 16;  // per worker
  uint32_t max_attempts = 5;         // workers that one closure may kill
  uint32_t max_give_backs = 64;      // times that a closure may be given back unfinished
  // Above the settled watermark; then dispatch waits. So a closure that stays open bounds what cuts
  // and tablets must remember of those behind it (ChiefCut.finished, the applied sets).
  uint64_t max_ids_ahead = 262'144;

  int64_t settle_interval_us = 50'000;
  int64_t ping_interval_us = 1'000'000;
  int64_t silence_us = 20'000'000;        // a task that says nothing for so long is lost
  int64_t probe_patience_us = 3'000'000;  // how long another chief's stream may still be closing
  int64_t probe_again_us = 200'000;
  int64_t adopt_grace_us = 5'000'000;  // a continued run starts without workers after that
  int64_t ps_grace_us = 1'000'000;     // a server gone for so long is lost
  int64_t set_aside_us = 2'000'000;    // a worker that cannot reach a server rests so long
  // A connected worker that has work and tells no result for so long gives it to others, where
  // there are any.
  int64_t closure_deadline_us = 600'000'000;
  bool closure_deadline_ends = false;  // where none gets on the job ends, as the user has asked
  int64_t stranded_us = 60'000'000;    // work waits, and no worker takes any, for so long
  int64_t cancel_deadline_us = 10'000'000;  // a worker that does not give up its closures is lost
  int64_t cut_deadline_us = 10'000'000;     // for closures in flight; then they enter it as pending
  int64_t snapshot_deadline_us = 60'000'000;
  int64_t write_deadline_us = 600'000'000;
  int64_t commit_deadline_us = 60'000'000;  // for the manifest, and for its record in the journal
  int64_t assign_deadline_us = 300'000'000;
  CoreTestFaults test_faults;
};

// Tasks tell of generations and timelines that this chief's journal may not know (it is another
// one). Each is one life of a chief, or one rollback: one that is further ahead than this was never
// there, and is not followed, for there is a last number.
inline constexpr uint64_t kMostAhead = uint64_t{1} << 16;
inline bool TooFarAhead(uint64_t heard, uint64_t known) {
  return heard > known && heard - known > kMostAhead;
}

// What to schedule.
struct ClosureSpec {
  int program = -1;      // from CoordinatorCore::AddProgram
  int resource = -1;     // from AddResource: feeds the program before `arguments` do; -1: none
  bool training = true;  // uses update ids and pushes
  uint32_t steps = 1;
  std::vector<v1::Lease> leases;  // visitation exactly_once: one per step
  std::vector<v1::TensorValue> arguments;
  // Made by the job runner: the place says what the closure means, so that it can be made again.
  // Its id is never given up before it is finished. Places of one epoch end at `places_end`.
  bool by_job = false;
  uint64_t place = 0;  // by_job only; others get the next free one
  uint64_t places_end = 0;
  uint64_t token = 0;  // names it in CoreEffects::ClosureDone
};

// A closure of the job runner that has an id and is not finished: to be scheduled again, by its
// place.
struct UnfinishedClosure {
  uint64_t id = 0;
  uint64_t place = 0;
  uint32_t steps = 1;
};

// A task as the core numbers it: indices are dense.
inline Task WorkerTask(int index) { return {Role::kWorker, index}; }
inline Task PsTask(int index) { return {Role::kPs, index}; }

// What the core wants done. Calls are made from within its inputs and must not call back into it.
class CoreEffects {
 public:
  virtual ~CoreEffects() = default;
  // On the stream that is open to the task; dropped where none is.
  virtual void SendToWorker(int worker, v1::ChiefToWorker message) = 0;
  virtual void SendToPs(int ps, v1::ChiefToPs message) = 0;
  // End the stream, tell OnDisconnected, and dial again.
  virtual void Reconnect(Task task, const std::string& why) = 0;
  // Create the next generation above `heard` in the journal's directory; tell OnGeneration. Errors:
  // OutOfRange where it is TooFarAhead of those there, and nothing is created.
  virtual void TakeGeneration(uint64_t heard) = 0;
  // Read the whole journal (recovery.h); tell OnRecovered.
  virtual void ReadJournal() = 0;
  // Append, in order; tell OnJournaled when durable.
  virtual void AppendJournal(v1::JournalRecord record) = 0;
  // Complete the manifest with the job, commit it; tell OnManifestWritten.
  virtual void WriteManifest(v1::Manifest manifest) = 0;

  // The closure is finished for good: with its result (which may be moved out of) where OK.
  virtual void ClosureDone(uint64_t token, const absl::Status& status,
                           v1::ClosureResult* result) = 0;
  virtual void CutDone(uint64_t cut, const absl::Status& status) = 0;
  virtual void RollbackDone(const absl::Status& status) = 0;
  // One event for the log: a fixed word, and what happened.
  virtual void Note(const char* event, const std::string& what) = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_TYPES_H_
