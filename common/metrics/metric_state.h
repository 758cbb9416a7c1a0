#ifndef COHORT_COMMON_METRICS_METRIC_STATE_H_
#define COHORT_COMMON_METRICS_METRIC_STATE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort::v1 {
class ClassConfig;
}

namespace cohort {

// How the values of two parts of an accumulator become the value of both. The numbers are those of
// Reduction in proto/metrics.proto.
enum class Reduction : uint8_t { kSum = 1, kMin = 2, kMax = 3 };

// A vector of numbers that a metric keeps: counts by threshold, a sum, the largest value so far.
struct Accumulator {
  std::string name;
  Reduction reduction = Reduction::kSum;
  std::vector<double> values;  // at least one

  bool operator==(const Accumulator&) const = default;
};

// Names the function that computes a metric from its accumulators, with its arguments; null is
// `Mean`. common/metrics/finalizers.h has the functions.
using FinalizerConfig = std::shared_ptr<const v1::ClassConfig>;

// The state of a metric over any set of examples. The states of two sets fold to the state of both.
struct MetricState {
  std::string name;
  FinalizerConfig finalizer;
  std::vector<Accumulator> accumulators;

  // The metric's value. NaN if this build lacks the finalizer, or if the accumulators do not suit
  // it.
  double Value() const;
  // True if no sum is infinite or NaN.
  bool finite() const;
  // The first element of an accumulator; 0 if there is none of this name.
  double Scalar(std::string_view accumulator) const;
};

// The name of the loss that a job minimizes, among the metrics of a result.
inline constexpr char kLossMetric[] = "loss";

// A mean. `Mean` reads the accumulators of these names.
inline constexpr char kTotal[] = "total";
inline constexpr char kCount[] = "count";
MetricState MeanState(std::string name, double total, double count);

// Folds `part` into `into`, which is as long.
void Fold(Reduction reduction, std::span<const double> part, std::span<double> into);

// Folds the state of further examples into `into`. A part that has other accumulators comes from
// another version of the program: it replaces the state.
void FoldMetric(const MetricState& part, MetricState* into);
// Folds each part into the state of its name. A new name is appended.
void FoldMetrics(std::span<const MetricState> parts, std::vector<MetricState>* into);

}  // namespace cohort

#endif  // COHORT_COMMON_METRICS_METRIC_STATE_H_
