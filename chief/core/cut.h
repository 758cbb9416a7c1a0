#ifndef COHORT_CHIEF_CORE_CUT_H_
#define COHORT_CHIEF_CORE_CUT_H_

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/core_counters.h"
#include "chief/core/outbox.h"
#include "chief/core/progress_watch.h"

namespace cohort {

// Runs one cut at a time, from the request for a checkpoint to a committed manifest.
//
// kIdle ─(1)─► kDraining ─(2)─► kSnapshotting ─(3)─► kWriting ─(4)─► kCommitting ─(5)─► kJournaling
//   ▲              │                  │                 │                 │                  │(6)
//   └──────────────┴──────────────────┴───────(7)───────┴─────────────────┴──────────────────┘
//
// (1) Begin: the chief dispatches no more training closures, and workers give back those that they
// have not begun (Dispatcher::Recall). (2) No training closure is in flight, or the deadline has
// passed and those in flight enter the cut as pending. The chief asks every ps for its snapshot.
// Synchronous steps need no drain: (2) is due at the next boundary. (3) Every ps has its snapshot
// in memory: dispatch continues. (4) All files are durable: the chief writes the manifest. (5) The
// manifest is committed. (6) The journal has the record, or the deadline has passed: the checkpoint
// exists anyway, and a restart finds it. (7) An error, a ps that is lost before (4), a deadline or
// a rollback ends the cut: the servers drop their snapshots, and the older checkpoint stays the
// newest. If storage writes a delayed manifest after the deadline, the cut is a valid checkpoint.
class Cut {
 public:
  enum class State : uint8_t {
    kIdle,
    kDraining,
    kSnapshotting,
    kWriting,
    kCommitting,
    kJournaling
  };

  Cut(const CoreOptions* options, Outbox* outbox) : options_(options), outbox_(outbox) {}

  State state() const { return state_; }
  // True if training closures must stay in the queue.
  bool holds_dispatch() const {
    return state_ == State::kDraining || state_ == State::kSnapshotting;
  }
  bool active() const { return state_ != State::kIdle; }
  // False if the cut no longer waits for its manifest.
  bool commits(uint64_t cut) const { return state_ == State::kCommitting && number() == cut; }
  uint64_t number() const { return manifest_.cut(); }
  // True if the newest cut is the last one of the finished job, and it is committed.
  bool finish_committed() const { return finish_committed_; }
  const CutCounters& counters() const { return counters_; }
  // What the cut is waiting for: "waiting for checkpoint DIR: ps:0 (host:2222) to take a snapshot,
  // 12 s"; "" if there is no cut, or it has not waited for long.
  std::string Waiting(size_t training_in_flight, int64_t now_us) const;

  // Gives the next cut at least this number.
  void SkipTo(uint64_t number) { next_number_ = std::max(next_number_, number); }
  // Edge (1); returns the cut's number. `finished`: it is the last cut of the job. `holds`:
  // training closures stay in the queue (not in sync mode); the counters have that time.
  uint64_t Begin(bool finished, uint64_t timeline, int64_t now_us, bool holds = true);
  // True if edge (2) is due.
  bool drained(size_t training_in_flight, int64_t now_us) const;
  // The manifest with the fields that the cut knows. The caller adds the step, the epoch, the
  // layout and the chief's part.
  const v1::Manifest& manifest() const { return manifest_; }
  // Edge (2). `servers`: those that answer for tablets.
  void Snapshot(v1::Manifest manifest, const std::set<int>& servers, int64_t now_us);
  // Takes an answer of a server. Returns true if the message belongs to this cut.
  bool OnPsMessage(int ps, const v1::PsToChief& message, int64_t now_us);
  // Edge (5) or (7). Returns true for edge (5). `path` is the manifest's file.
  bool OnManifestWritten(uint64_t cut, const absl::Status& status, const std::string& path);
  void OnJournaled(uint64_t record);
  void Tick(int64_t now_us);
  // Edge (7), unless all files are durable: the cut no longer needs the servers.
  void LoseServer(const absl::Status& why);
  // Edge (7).
  void Abandon(const absl::Status& why);
  // A rollback begins: after it the job is not finished, and the next checkpoint has all rows.
  void ForgetCommitted() {
    finish_committed_ = false;
    committed_.clear();
  }

 private:
  bool AllDone(const std::vector<bool>& done) const;
  // The servers that have not answered yet.
  std::vector<int> Late() const;
  void Enter(State state, int64_t now_us, int64_t limit_us);
  // Training closures may be dispatched again.
  void Release(int64_t now_us);
  // The checkpoint that this one may be an increment of; "": it has all rows.
  std::string Base() const;
  void Write();
  void Finish(const absl::Status& status);

  const CoreOptions* const options_;
  Outbox* const outbox_;
  uint64_t next_number_ = 0;
  CutCounters counters_;
  bool finish_committed_ = false;
  // The newest checkpoint that this chief has committed since it started or rolled back, and how
  // many increments there are up to it. Only its servers know what has changed since then.
  std::string committed_;
  uint32_t increments_ = 0;

  // The newest cut.
  State state_ = State::kIdle;
  std::string directory_;
  int64_t begun_us_ = 0;
  bool holds_ = true;
  int64_t since_us_ = 0;  // when the cut entered the state
  int64_t deadline_us_ = 0;
  int64_t now_us_ = 0;
  std::vector<uint64_t> requests_;  // by ps
  std::vector<bool> taken_;
  std::vector<bool> written_;
  std::vector<ProgressWatch> progress_;  // with writing, by ps
  v1::Manifest manifest_;
  std::string base_;
  uint64_t record_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CUT_H_
