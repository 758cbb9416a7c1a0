// Discretization (keras/src/layers/preprocessing/discretization.py).
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

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

Summary Merge(const Summary& a, const Summary& b, double epsilon) {
  std::vector<std::pair<float, float>> entries;
  for (const Summary* part : {&a, &b}) {
    for (size_t i = 0; i < part->values.size(); ++i) {
      entries.emplace_back(part->values[i], part->weights[i]);
    }
  }
  std::ranges::stable_sort(entries, {}, &std::pair<float, float>::first);
  Summary merged;
  for (const auto& [value, weight] : entries) {
    merged.values.push_back(value);
    merged.weights.push_back(weight);
  }
  return Compress(merged, epsilon);
}

// Learns boundaries as Keras' adapt, with batches of the most numbers that are kept.
class BoundaryLearner : public NumberLearner {
 public:
  explicit BoundaryLearner(const Config& config)
      : epsilon_(config.Float("epsilon")), num_bins_(config.Int("num_bins")) {}

  absl::Status Add(std::span<const double> numbers) override {
    for (const double number : numbers) {
      if (std::isnan(number)) {
        return InvalidArgument("Discretization cannot learn from a NaN: give its bin_boundaries");
      }
      values_.push_back(static_cast<float>(number));
      if (values_.size() == kMostValues) Flush();
    }
    return absl::OkStatus();
  }

  absl::Status Finish(v1::ClassConfig* config) override {
    if (!values_.empty()) Flush();
    Summary bins = Compress(summary_, 1.0 / static_cast<double>(num_bins_));
    if (!bins.values.empty()) bins.values.pop_back();
    v1::ConfigValue boundaries;
    boundaries.mutable_list();
    for (const float value : bins.values) {
      *boundaries.mutable_list()->add_values() = ConfigOf(static_cast<double>(value));
    }
    (*config->mutable_config())["bin_boundaries"] = std::move(boundaries);
    return absl::OkStatus();
  }

 private:
  static constexpr size_t kMostValues = 16 << 20;  // 64 MiB

  void Flush() {
    summary_ = Merge(Summarize(std::exchange(values_, {}), epsilon_), summary_, epsilon_);
  }

  const double epsilon_;
  const int64_t num_bins_;
  std::vector<float> values_;
  Summary summary_;
};

absl::StatusOr<std::unique_ptr<NumberLearner>> LearnBoundaries(const Config& config, const Dims&) {
  return std::make_unique<BoundaryLearner>(config);
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
      .learn_numbers = LearnBoundaries};
}

}  // namespace cohort
