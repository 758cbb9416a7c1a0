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

// Which figure of the validations makes a checkpoint the best, as Keras' ModelCheckpoint has it
// (save_best_only, monitor, mode).
struct BestRule {
  std::string metric;  // "val_loss"
  bool highest = false;
  // Whether the figure of a checkpoint is of the same validation set: figures of two say nothing of
  // each other. Null: all are.
  std::function<bool(const v1::Manifest&)> comparable;

  // Whether `value` is better than that of `best`, so far; null: there is none. NaN never is, nor
  // is one that equals it, nor the worst infinity.
  bool Better(double value, const v1::BestCheckpoint* best) const;
  // Whether it was chosen by this rule.
  bool Chose(const v1::BestCheckpoint& best) const;
  std::string_view mode() const { return highest ? "max" : "min"; }
};

// The rule by which a manifest's `best` was chosen, of its validation set.
BestRule RuleOf(const v1::Manifest& manifest);

// What makes the checkpoint of `manifest`, which has been validated, the best.
v1::BestCheckpoint AsBest(const v1::Manifest& manifest, const BestRule& rule);

// The best checkpoint of the history that ends in `last`, one of those in `directory`: what `last`
// names as such, where that is whole and comparable. Where it is not, the best of what is left:
// comparable checkpoints that say what their validation was. Of these only those of the timeline of
// `last` count: of older ones it is not known whether a rollback has left them. `refused` is told
// of each that is not whole, and of the one that `last` names where it is not comparable. Nullopt
// where there is none. Errors: those of listing the directory.
absl::StatusOr<std::optional<v1::BestCheckpoint>> BestOf(const std::string& directory,
                                                         const v1::Manifest& last,
                                                         const BestRule& rule,
                                                         const RefusedCallback& refused);

// The same for the newest whole checkpoint of `directory`, by the rule of its job. Nullopt, too,
// where that names none.
absl::StatusOr<std::optional<v1::BestCheckpoint>> FindBest(const std::string& directory,
                                                           const RefusedCallback& refused);

// "val_loss 0.3126, epoch 4".
std::string BestText(const v1::BestCheckpoint& best);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_BEST_CHECKPOINT_H_
