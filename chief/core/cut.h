#ifndef COHORT_CHIEF_CORE_CUT_H_
#define COHORT_CHIEF_CORE_CUT_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/outbox.h"

namespace cohort {

// One cut at a time: the chief's walk from "take a checkpoint" to a committed manifest.
//
//   kIdle ─(1)─► kDraining ─(2)─► kSnapshotting ─(3)─► kWriting ─(4)─► kCommitting ─(5)─►
//   kJournaling
//     ▲              │                 │                  │                 │                 │(6)
//     └──────────────┴─────────────────┴──────(7)─────────┴─────────────────┴─────────────────┘
//
// (1) Begin: training closures are no longer dispatched. (2) Drained: none is in flight, or the
// deadline has passed and those that are enter the cut as pending; every ps is told to take its
// snapshot. (3) all have it in memory: dispatch goes on. (4) all files are durable: the manifest is
// written. (5) it is committed. (6) the journal knows, or does not in time: the checkpoint is there
// all the same, and a restart finds it. (7) an error, a ps lost before (4), a deadline, a rollback:
// the snapshots are dropped, the older checkpoint stays the newest. (A manifest that storage holds
// up beyond its deadline may still come to be: then it is a checkpoint like others.)
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
  // Training closures stay in the line.
  bool holds_dispatch() const {
    return state_ == State::kDraining || state_ == State::kSnapshotting;
  }
  uint64_t number() const { return manifest_.cut(); }
  const std::string& directory() const { return directory_; }
  // Since when the state is what it is.
  int64_t since_us() const { return since_us_; }
  // The servers that it waits for.
  std::vector<int> Late() const;

  // Edge (1). `directory` is the checkpoint's own.
  void Begin(uint64_t number, uint64_t timeline, std::string directory, int64_t now_us);
  // Whether edge (2) is due.
  bool drained(size_t training_in_flight, int64_t now_us) const;
  // Edge (2): `manifest` has what the chief knows: timeline, generation, cut, step, epoch, layout,
  // chief.
  void Snapshot(v1::Manifest manifest, int64_t now_us);
  // Answers of the servers: true where the message was for this cut.
  bool OnPsMessage(int ps, const v1::PsToChief& message, int64_t now_us);
  // Edge (5), then it is true, or (7). `path` names the manifest's file.
  bool OnManifestWritten(uint64_t cut, const absl::Status& status, const std::string& path);
  void OnJournaled(uint64_t record);
  void Tick(int64_t now_us);
  // Edge (7), but where all files are durable: no server is needed any more.
  void LoseServer(const absl::Status& why);
  // Edge (7).
  void Abandon(const absl::Status& why);
  // True once after dispatch may go on.
  bool TakeReleased() { return std::exchange(released_, false); }

 private:
  bool AllDone(const std::vector<bool>& done) const;
  void Enter(State state, int64_t now_us, int64_t limit_us);
  void Write();

  const CoreOptions* const options_;
  Outbox* const outbox_;
  State state_ = State::kIdle;
  bool released_ = false;
  std::string directory_;
  int64_t since_us_ = 0;
  int64_t deadline_us_ = 0;
  int64_t now_us_ = 0;
  std::vector<uint64_t> requests_;  // by ps
  std::vector<bool> taken_;
  std::vector<bool> written_;
  v1::Manifest manifest_;
  uint64_t record_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CUT_H_
