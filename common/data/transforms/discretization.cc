// Discretization (keras/src/layers/preprocessing/discretization.py).
#include <algorithm>
#include <cmath>

#include "common/base/status.h"
#include "common/data/category.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

// Values with their weights, as Keras' sketch has them.
struct Summary {
  std::vector<float> values, weights;
};

// numpy.interp of ascending xs.
double Interpolate(double x, std::span<const double> xs, std::span<const float> ys) {
  const auto above = std::upper_bound(xs.begin(), xs.end(), x);
  if (above == xs.begin()) return ys.front();
  if (above == xs.end()) return ys.back();
  const auto i = static_cast<size_t>(above - xs.begin());
  const double slope = (static_cast<double>(ys[i]) - ys[i - 1]) / (xs[i] - xs[i - 1]);
  return slope * (x - xs[i - 1]) + ys[i - 1];
}

Summary Compress(const Summary& summary, double epsilon) {
  if (static_cast<double>(summary.values.size()) * epsilon < 1) return summary;
  std::vector<float> sums;
  float sum = 0;
  for (const float weight : summary.weights) sums.push_back(sum += weight);
  std::vector<double> shares;
  for (const float s : sums) shares.push_back(s / sum);
  Summary small;
  double before = 0;
  const auto count =
      static_cast<size_t>(std::ceil(1.0 / epsilon));  // as numpy.arange(0, 1, epsilon)
  for (size_t i = 0; i < count; ++i) {
    const double share = epsilon + static_cast<double>(i) * epsilon;
    small.values.push_back(static_cast<float>(Interpolate(share, shares, summary.values)));
    const double to = Interpolate(share, shares, sums);
    small.weights.push_back(static_cast<float>(to - before));
    before = to;
  }
  return small;
}

Summary Summarize(std::vector<float> values, double epsilon) {
  std::sort(values.begin(), values.end());
  const double step = std::max(static_cast<double>(values.size()) * epsilon, 1.0);
  Summary summary;
  for (size_t i = static_cast<size_t>(step - 1); i < values.size();
       i += static_cast<size_t>(step)) {
    summary.values.push_back(values[i]);
    summary.weights.push_back(static_cast<float>(step));
  }
  return summary;
}

absl::Status AdaptBoundaries(std::span<const double> numbers, const Dims&,
                             v1::ClassConfig* config) {
  const Config given(*config);
  const double epsilon = given.Float("epsilon");
  std::vector<float> values(numbers.begin(), numbers.end());
  if (std::any_of(values.begin(), values.end(), [](float v) { return std::isnan(v); })) {
    return InvalidArgument("Discretization cannot learn from a NaN: give its bin_boundaries");
  }
  const Summary summary = Compress(Summarize(std::move(values), epsilon), epsilon);
  Summary bins = Compress(summary, 1.0 / static_cast<double>(given.Int("num_bins")));
  if (!bins.values.empty()) bins.values.pop_back();
  v1::ConfigValue boundaries;
  boundaries.mutable_list();
  for (const float value : bins.values) {
    *boundaries.mutable_list()->add_values() = ConfigOf(static_cast<double>(value));
  }
  (*config->mutable_config())["bin_boundaries"] = std::move(boundaries);
  return absl::OkStatus();
}

absl::StatusOr<RecordTransform> OpenDiscretization(const Config& config,
                                                   std::span<const FeatureType> inputs) {
  if (config.IsNone("bin_boundaries")) {
    return InvalidArgument("Discretization needs bin_boundaries, or num_bins to learn them");
  }
  std::vector<float> boundaries;
  for (const double boundary : config.Floats("bin_boundaries")) {
    boundaries.push_back(static_cast<float>(boundary));
  }
  if (!std::is_sorted(boundaries.begin(), boundaries.end())) {
    return InvalidArgument("bin_boundaries must ascend");
  }
  CategoryOutput output{.mode = config.String("output_mode"),
                        .depth = static_cast<int64_t>(boundaries.size()) + 1};
  return CategoryTransform(std::move(output), inputs[0], DType::kInt32,
                           [boundaries = std::move(boundaries)](const CategoryInput& input) {
                             const auto value = static_cast<float>(input.value);
                             return std::upper_bound(boundaries.begin(), boundaries.end(), value) -
                                    boundaries.begin();
                           });
}

}  // namespace

TransformClass DiscretizationTransform() {
  return {
      .schema = {.name = "Discretization",
                 .doc = "Numbers to bins, as Keras' Discretization; int32, or float32 vectors.",
                 .arguments = {Floats("bin_boundaries",
                                      "Where bins begin; none: learned from the training rows.")
                                   .Optional(),
                               Int("num_bins",
                                   "Bins of about the same number of records, whose "
                                   "boundaries are learned.")
                                   .Optional()
                                   .AtLeast(1),
                               Float("epsilon", "How exact the learned boundaries are.")
                                   .Default(0.01)
                                   .Between(1e-6, 1),
                               OutputModeArgument("int", {"int", "one_hot", "multi_hot", "count"}),
                               SparseArgument()}},
      .open = OpenDiscretization,
      .must_adapt =
          [](const Config& config) {
            return config.IsNone("bin_boundaries") && !config.IsNone("num_bins");
          },
      .adapt_numbers = AdaptBoundaries};
}

}  // namespace cohort
