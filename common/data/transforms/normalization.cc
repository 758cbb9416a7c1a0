// Normalization (keras/src/layers/preprocessing/normalization.py).
#include <algorithm>
#include <cmath>
#include <cstring>

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

absl::Status AdaptMoments(std::span<const double> numbers, const Dims& dims,
                          v1::ClassConfig* config) {
  COHORT_ASSIGN_OR_RETURN(const Means means, MeansOf(Config(*config), dims));
  const size_t n = means.of_element.size();
  if (numbers.empty() || n == 0) return InvalidArgument("Normalization learns from no records");
  const double count = static_cast<double>(numbers.size() / n * (n / means.count));
  std::vector<double> mean(means.count), variance(means.count);
  for (size_t i = 0; i < numbers.size(); ++i) mean[means.of_element[i % n]] += numbers[i];
  for (double& m : mean) m /= count;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t at = means.of_element[i % n];
    variance[at] += (numbers[i] - mean[at]) * (numbers[i] - mean[at]);
  }
  v1::ConfigValue means_list, variances_list;
  for (size_t i = 0; i < mean.size(); ++i) {
    if (!std::isfinite(mean[i]) || !std::isfinite(variance[i])) {
      return InvalidArgument("Normalization learns from a number that is not finite");
    }
    *means_list.mutable_list()->add_values() = ConfigOf(mean[i]);
    *variances_list.mutable_list()->add_values() = ConfigOf(variance[i] / count);
  }
  (*config->mutable_config())["mean"] = std::move(means_list);
  (*config->mutable_config())["variance"] = std::move(variances_list);
  return absl::OkStatus();
}

absl::StatusOr<RecordTransform> OpenNormalization(const Config& config,
                                                  std::span<const FeatureType> inputs) {
  if (config.IsNone("mean") != config.IsNone("variance")) {
    return InvalidArgument("Normalization needs both mean and variance, or none to learn them");
  }
  if (config.IsNone("mean")) {
    return InvalidArgument(
        "Normalization learns from columns in memory, and \"{}\" is read record by record: give "
        "mean and variance",
        inputs[0].name);
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
      .adapt_numbers = AdaptMoments};
}

}  // namespace cohort
