// Normalization (keras/src/layers/preprocessing/normalization.py).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

constexpr float kLeastDeviation = 1e-7F;  // keras.config.epsilon()

// The number of the mean that each element of a record has. `axis` counts the batch, as in Keras;
// a record without axes has one of size 1.
struct Means {
  std::vector<size_t> of_element;
  size_t count = 1;
};

absl::StatusOr<Means> MeansOf(const Config& config, Dims dims) {
  if (dims.empty()) dims = {1};
  const auto rank = static_cast<int64_t>(dims.size()) + 1;
  std::vector<bool> kept(dims.size());
  if (!config.IsNone("axis")) {
    for (const int64_t given : config.Ints("axis")) {
      const int64_t axis = given < 0 ? given + rank : given;
      if (axis < 1 || axis >= rank) {
        return InvalidArgument("axis {} is not one of the {} axes after the batch", given,
                               rank - 1);
      }
      kept[static_cast<size_t>(axis - 1)] = true;
    }
  }
  Means means{std::vector<size_t>(static_cast<size_t>(NumElements(dims)))};
  size_t inner = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    const auto size = static_cast<size_t>(dims[axis]);
    for (size_t i = 0; i < means.of_element.size() && kept[axis]; ++i) {
      means.of_element[i] += i / inner % size * means.count;
    }
    if (kept[axis]) means.count *= size;
    inner *= size;
  }
  return means;
}

absl::StatusOr<std::vector<float>> Statistics(const Config& config, std::string_view name,
                                              size_t count) {
  const std::vector<double> given = config.Floats(name);
  if (given.size() == 1) return std::vector<float>(count, static_cast<float>(given[0]));
  if (given.size() == count) return std::vector<float>(given.begin(), given.end());
  return InvalidArgument("{} has {} numbers, and the axes have {}", name, given.size(), count);
}

// Learns means and variances. It joins those of blocks (Chan, Golub, LeVeque: Updating Formulae and
// a Pairwise Algorithm for Computing Sample Variances, 1979).
class MomentLearner : public NumberLearner {
 public:
  explicit MomentLearner(Means means)
      : means_(std::move(means)), mean_(means_.count), squares_(means_.count) {}

  absl::Status Add(std::span<const double> numbers) override {
    const size_t n = means_.of_element.size();
    if (n == 0 || numbers.empty()) return absl::OkStatus();
    const auto count = static_cast<double>(numbers.size() / n * (n / means_.count));
    std::vector<double> mean(means_.count), squares(means_.count);
    for (size_t i = 0; i < numbers.size(); ++i) mean[means_.of_element[i % n]] += numbers[i];
    for (double& m : mean) m /= count;
    for (size_t i = 0; i < numbers.size(); ++i) {
      const size_t at = means_.of_element[i % n];
      squares[at] += (numbers[i] - mean[at]) * (numbers[i] - mean[at]);
    }
    const double total = count_ + count;
    for (size_t i = 0; i < mean.size(); ++i) {
      const double difference = mean[i] - mean_[i];
      mean_[i] += difference * (count / total);
      squares_[i] += squares[i] + difference * difference * (count_ * count / total);
    }
    count_ = total;
    return absl::OkStatus();
  }

  absl::Status Finish(v1::ClassConfig* config) override {
    if (count_ == 0) return InvalidArgument("Normalization learns from no records");
    v1::ConfigValue means, variances;
    for (size_t i = 0; i < mean_.size(); ++i) {
      if (!std::isfinite(mean_[i]) || !std::isfinite(squares_[i])) {
        return InvalidArgument("Normalization learns from a number that is not finite");
      }
      *means.mutable_list()->add_values() = ConfigOf(mean_[i]);
      *variances.mutable_list()->add_values() = ConfigOf(squares_[i] / count_);
    }
    (*config->mutable_config())["mean"] = std::move(means);
    (*config->mutable_config())["variance"] = std::move(variances);
    return absl::OkStatus();
  }

 private:
  const Means means_;
  double count_ = 0;                    // the numbers of each mean
  std::vector<double> mean_, squares_;  // squares of the differences from the mean
};

absl::StatusOr<std::unique_ptr<NumberLearner>> LearnMoments(const Config& config,
                                                            const Dims& dims) {
  COHORT_ASSIGN_OR_RETURN(Means means, MeansOf(config, dims));
  return std::make_unique<MomentLearner>(std::move(means));
}

absl::StatusOr<RecordTransform> OpenNormalization(const Config& config,
                                                  std::span<const FeatureType> inputs) {
  if (config.IsNone("mean") != config.IsNone("variance")) {
    return InvalidArgument("Normalization needs both mean and variance, or none to learn them");
  }
  COHORT_ASSIGN_OR_RETURN(Means means, MeansOf(config, inputs[0].dims));
  COHORT_ASSIGN_OR_RETURN(std::vector<float> mean, Statistics(config, "mean", means.count));
  COHORT_ASSIGN_OR_RETURN(std::vector<float> deviation,
                          Statistics(config, "variance", means.count));
  for (float& d : deviation) d = std::max(std::sqrt(d), kLeastDeviation);
  RecordTransform transform{.dtype = DType::kFloat32, .dims = inputs[0].dims};
  transform.apply = [from = inputs[0].dtype, means = std::move(means), mean = std::move(mean),
                     deviation = std::move(deviation), invert = config.Bool("invert")](
                        const RecordContext&, std::span<const std::span<const std::byte>> values,
                        std::span<std::byte> output) {
    WithType(from, [&](auto number) {
      for (size_t i = 0; i < output.size() / sizeof(float); ++i) {
        std::memcpy(&number, values[0].data() + i * sizeof(number), sizeof(number));
        const size_t at = means.of_element[i % means.of_element.size()];
        const auto x = static_cast<float>(number);
        const float y = invert ? mean[at] + x * deviation[at] : (x - mean[at]) / deviation[at];
        std::memcpy(output.data() + i * sizeof(y), &y, sizeof(y));
      }
    });
    return absl::OkStatus();
  };
  return transform;
}

}  // namespace

TransformClass NormalizationTransform() {
  return {
      .schema = {.name = "Normalization",
                 .doc = "(x - mean) / sqrt(variance), as Keras' Normalization; float32.",
                 .arguments =
                     {Ints("axis",
                           "Axes with a mean for each position; the batch is 0. "
                           "none: one mean.")
                          .Default(std::vector<int64_t>{-1})
                          .OrNone(),
                      Floats("mean", "The means; none: learned from the training rows.").Optional(),
                      Floats("variance", "The variances.").Optional(),
                      Bool("invert", "x * sqrt(variance) + mean.").Default(false)}},
      .open = OpenNormalization,
      .elementwise = true,
      .must_adapt =
          [](const Config& config) { return config.IsNone("mean") && config.IsNone("variance"); },
      .learn_numbers = LearnMoments};
}

}  // namespace cohort
