#ifndef COHORT_COMMON_METRICS_FINALIZERS_H_
#define COHORT_COMMON_METRICS_FINALIZERS_H_

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/metrics/metric_state.h"
#include "common/schema/class_registry.h"
#include "common/schema/class_schema.h"

namespace cohort {

// A function that computes a metric from its accumulators. The classes:
//
//   Mean      total / count; 0 if count is 0
//   RootMean  the square root of Mean
//   Single    the first element of the only accumulator
//   AUC       the area under a curve, from the true and false positives at each threshold
//   GroupAUC  the mean of the areas under the curves of groups of records
//   Best      the largest of one rate (precision, recall, ...) where another one reaches a bound
//   FBeta     the F score from true positives, false positives and false negatives
//   IoU       intersection over union, from what is predicted, labeled, and both
//   ConfusionMatrix    the share of the diagonal
//   R2        the coefficient of determination
//   NormalizedEntropy  a cross entropy divided by that of the mean label
struct FinalizerClass {
  ClassSchema schema;
  std::vector<std::string> accumulators;  // those that it reads, by name; empty: the only one
  // A pure function. The spans are those accumulators, in this order; none is empty.
  double (*finalize)(const Config& config,
                     std::span<const std::span<const double>> accumulators) = nullptr;

  // Error: InvalidArgument if there is no `finalize`.
  absl::Status CheckClass() const {
    if (finalize != nullptr) return absl::OkStatus();
    return InvalidArgument("the finalizer {} has no function `finalize`", schema.name);
  }
};

// All finalizers. A plugin may register more.
ClassRegistry<FinalizerClass>& Finalizers();

bool IsMean(const FinalizerConfig& finalizer);
// Bytes on the wire.
size_t FinalizerBytes(const FinalizerConfig& finalizer);

// Completes a finalizer's arguments. Errors: InvalidArgument for an unknown finalizer, an argument
// that does not suit, or if it reads an accumulator that is not among `accumulators`.
absl::StatusOr<FinalizerConfig> MakeFinalizer(const v1::ClassConfig& given,
                                              std::span<const std::string> accumulators);

// Errors: those of MakeFinalizer.
absl::StatusOr<double> Finalize(const MetricState& state);

}  // namespace cohort

#endif  // COHORT_COMMON_METRICS_FINALIZERS_H_
