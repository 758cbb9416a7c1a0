#ifndef COHORT_COMMON_CHECKPOINT_BEST_CHECKPOINT_H_
#define COHORT_COMMON_CHECKPOINT_BEST_CHECKPOINT_H_

#include <absl/status/statusor.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "common/checkpoint/checkpoint_directory.h"
#include "proto/checkpoint.pb.h"

namespace cohort {

// Selects the validation metric that makes a checkpoint the best, as Keras' ModelCheckpoint does
// (save_best_only, monitor, mode).
struct BestRule {
  std::string metric;  // "val_loss"
  bool highest = false;
  double min_delta = 0;      // the least difference that makes a value better
  uint64_t first_epoch = 0;  // states with fewer finished epochs are never the best
  // True if the checkpoint's metric was computed on the same validation set; metrics of two sets
  // cannot be compared. Null: all can be compared.
  std::function<bool(const v1::Manifest&)> comparable;

  // True if `value` is better than the value of `best`; null: there is no best one yet. NaN, an
  // equal value and the worst infinity are never better.
  bool Better(double value, const v1::BestCheckpoint* best) const;
  // True if `best` was chosen by this rule.
  bool Chose(const v1::BestCheckpoint& best) const;
  std::string_view mode() const { return highest ? "max" : "min"; }
};

// The rule by which a manifest's `best` was chosen, for its validation set.
BestRule RuleOf(const v1::Manifest& manifest);

// The entry that names the checkpoint of `manifest`, which has been validated, as the best.
v1::BestCheckpoint AsBest(const v1::Manifest& manifest, const BestRule& rule);

// The best checkpoint of the history that ends in `last`, which is one of those in `directory`.
// This is the one that `last` names, if it is complete and comparable. Otherwise it is the best of
// the other comparable checkpoints that were validated. Only those of the timeline of `last` count,
// because a rollback may have abandoned older ones. Calls `refused` for each checkpoint that is not
// complete, and for the one that `last` names if it is not comparable. Nullopt if there is none.
// Errors: those of listing the directory.
absl::StatusOr<std::optional<v1::BestCheckpoint>> BestOf(const std::string& directory,
                                                         const v1::Manifest& last,
                                                         const BestRule& rule,
                                                         const RefusedCallback& refused);

// The same for the newest complete checkpoint of `directory`, by the rule of its job. Also nullopt
// if that checkpoint names none.
absl::StatusOr<std::optional<v1::BestCheckpoint>> FindBest(const std::string& directory,
                                                           const RefusedCallback& refused);

// "val_loss 0.3126, epoch 4".
std::string BestText(const v1::BestCheckpoint& best);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_BEST_CHECKPOINT_H_
