#ifndef COHORT_CHIEF_JOB_BEST_TRACKER_H_
#define COHORT_CHIEF_JOB_BEST_TRACKER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chief/api/coordinator_state.h"
#include "chief/job/best_keeper.h"
#include "chief/job/checkpoint_catalog.h"
#include "chief/job/job_console.h"
#include "common/base/log.h"

namespace cohort {

// Runs `checkpoint.keep_best` for a job. BestKeeper decides which checkpoint is the best; this
// class connects it with the stored checkpoints and with the console.
//
//   1. FindAgain, at the start and after a restore, finds the best checkpoint of the history that
//      the cluster continues.
//   2. Judge, after each validation, decides if the cluster's state is better.
//   3. The walk takes a checkpoint if TakeDue returns true; BestKeeper completes its manifest.
//   4. Announce, after that checkpoint, prints the new best one.
//
// One thread at a time may use it; the keeper is thread-safe.
class BestTracker {
 public:
  BestTracker(BestRule rule, const CheckpointCatalog* catalog, JobConsole* console, Logger* log)
      : keeper_(std::move(rule)), catalog_(catalog), console_(console), log_(log) {}

  // The keeper completes manifests, and learns which of them are committed.
  BestKeeper* keeper() { return &keeper_; }

  // The cluster continues from the checkpoint in directory `from` ("" = from the beginning).
  // Returns false if no manifest has the figure of the state's validation: the state must be
  // validated again.
  bool FindAgain(const std::string& from, uint64_t timeline);
  // A validation after `finished_epochs` gave these metrics; `state` is the cluster's.
  void Judge(const std::vector<MetricState>& validation, uint64_t finished_epochs,
             const CoordinatorState& state, const std::string& newest_checkpoint);
  // Returns true once after Judge found a better state: its checkpoint is due.
  bool TakeDue() { return std::exchange(due_, false); }
  // True if the newest checkpoint has this state between two epochs.
  bool HasCheckpointOf(uint64_t finished_epochs, uint64_t next_place) const {
    return keeper_.Holds({0, finished_epochs, next_place});
  }
  // True if this state is better than all checkpoints.
  bool IsBest(const CoordinatorState& state) const {
    return keeper_.IsBest({state.timeline, state.epoch, state.next_place});
  }
  // Prints and logs the best checkpoint if it is new.
  void Announce();
  std::optional<v1::BestCheckpoint> best() const { return keeper_.best(); }

 private:
  // Returns the last manifest of the history; nullopt if it is unknown.
  std::optional<v1::Manifest> LastManifest(const std::string& from, uint64_t timeline);
  bool BestIsGone() const;
  void LogUnknown(const absl::Status& why);

  BestKeeper keeper_;
  const CheckpointCatalog* const catalog_;
  JobConsole* const console_;
  Logger* const log_;

  bool due_ = false;
  std::string announced_;  // name of the checkpoint
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_BEST_TRACKER_H_
