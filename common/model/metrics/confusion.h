#ifndef COHORT_COMMON_MODEL_METRICS_CONFUSION_H_
#define COHORT_COMMON_MODEL_METRICS_CONFUSION_H_

#include <absl/status/statusor.h>

#include <vector>

#include "common/model/metrics/metric.h"

namespace cohort {

// Thresholds of predictions (keras/src/metrics/metrics_utils.py). A prediction p exceeds threshold
// i if p * scale > at[i], computed in the dtype of p.
struct Thresholds {
  std::vector<double> at;  // ascending, unless the user gave another order
  double scale = 1;
  bool clips = false;  // predictions are brought into [0, 1] first
};

// NEG_INF of Keras: what a prediction becomes that `top_k` leaves out.
inline constexpr double kNoPrediction = -1e10;

// i / (n - 1), for which Keras counts a prediction p in bucket ceil(p (n - 1)) - 1: p exceeds
// threshold i exactly if p (n - 1) > i. n is 2 or more.
Thresholds EvenThresholds(int64_t n);
// True if Keras takes these thresholds for even ones.
bool AreEven(const std::vector<double>& at);
// The argument `thresholds`; `otherwise` if it is none.
Thresholds ThresholdsOf(const Config& config, double otherwise);
Argument ThresholdsArgument();
Argument ClassIdArgument();

// Labels and predictions of a batch as elements that are positive or not.
struct Elements {
  Expr positive;  // 1 for a label that is not 0, else 0
  Expr p;
  Expr weight;  // each element has one; none: 1
};

// The arguments `top_k` and `class_id` apply if the config has them. Errors: InvalidArgument.
absl::StatusOr<Elements> ElementsOf(const Config& config, const MetricInput& input);

// The sums of weights over all elements, by threshold: [thresholds].
struct ConfusionCounts {
  Expr true_positives, false_positives;
  Expr positives, negatives;  // scalars: of all labels
};
ConfusionCounts CountAbove(const Elements& elements, const Thresholds& thresholds);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_METRICS_CONFUSION_H_
