#ifndef COHORT_CHIEF_JOB_BEST_KEEPER_H_
#define COHORT_CHIEF_JOB_BEST_KEEPER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/checkpoint/best_checkpoint.h"

namespace cohort {

// Decides which checkpoint of a running job is its best (`checkpoint.keep_best`): the committed
// checkpoint whose state has the best validation. Checkpoints before a rollback that the rollback
// discarded do not count.
//
// A validation by closures reads the weights between two epochs. Every closure of the earlier
// epochs has ended, so each of its updates is applied once on every tablet, and a late repetition
// changes nothing. No closure of the next epoch is scheduled before the validation has ended. So
// the figures of the validation belong to one state. Every cut at the same place of the same
// timeline without pending closures has that state, at any time.
//
//   Validated ─► (a cut) ─► Complete ─► (the manifest is durable) ─► Committed
//
// A cut that fails changes nothing: only a committed checkpoint can be the best. ContinueFrom, at
// the start and after a rollback, forgets the discarded checkpoints. Thread-safe.
class BestKeeper {
 public:
  // A state between two epochs, without unfinished closures.
  struct State {
    uint64_t timeline = 0;
    uint64_t epoch = 0;  // finished epochs
    uint64_t place = 0;  // the next place
  };

  explicit BestKeeper(BestRule rule) : rule_(std::move(rule)) {}

  const BestRule& rule() const { return rule_; }

  // The job continues from checkpoint `from` (null: from the beginning); `best` is the best one of
  // its history.
  void ContinueFrom(const v1::Manifest* from, std::optional<v1::BestCheckpoint> best);
  // The validation of `state` gave `value`. Returns true if it is the best so far: a checkpoint is
  // due.
  bool Validated(const State& state, double value);
  // Adds `validated` and `best` to a manifest that is about to be written.
  void Complete(v1::Manifest* manifest) const;
  // The manifest is durable.
  void Committed(const v1::Manifest& manifest);

  // True if the last validation was of this state, and no checkpoint is better.
  bool IsBest(const State& state) const;
  // True if the newest checkpoint has this state.
  bool Holds(const State& state) const;
  std::optional<v1::BestCheckpoint> best() const;

 private:
  bool IsBetter(double value, const State& state) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const BestRule rule_;

  mutable Mutex mu_;
  std::optional<State> validated_ ABSL_GUARDED_BY(mu_);
  double value_ ABSL_GUARDED_BY(mu_) = 0;  // the value of validated_
  std::optional<v1::BestCheckpoint> best_ ABSL_GUARDED_BY(mu_);
  std::optional<State> held_ ABSL_GUARDED_BY(mu_);  // state of the newest checkpoint
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_BEST_KEEPER_H_
