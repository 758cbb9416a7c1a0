// A plugin: a source and a transform of data, a layer, a loss, and a metric with a finalizer.
// waves.yaml uses them all.
#include <cmath>
#include <numbers>

#include "cohort/plugin.h"

namespace {

using namespace cohort;

// ---------------------------------------------------------------- a source: runs on workers

// Record i has a point `x` of the square [-1, 1] x [-1, 1] and a label, the height of a wave there.
class Waves : public RecordSource {
 public:
  Waves(uint64_t records, uint64_t seed) : records_(records), seed_(seed) {}

  uint64_t num_records() const override { return records_; }
  const std::vector<FeatureType>& columns() const override { return columns_; }
  std::string fingerprint() const override { return fmt::format("waves {} {}", records_, seed_); }

  absl::Status Read(const RecordContext& context,
                    std::span<const std::span<std::byte>> values) const override {
    const float a = Coordinate(2 * context.record);
    const float b = Coordinate(2 * context.record + 1);
    if (!values[0].empty()) {
      auto* const x = reinterpret_cast<float*>(values[0].data());
      x[0] = a;
      x[1] = b;
    }
    if (!values[1].empty()) {
      *reinterpret_cast<float*>(values[1].data()) =
          std::sin(std::numbers::pi_v<float> * a) + 0.5F * b;
    }
    return absl::OkStatus();
  }

 private:
  // A number of [-1, 1) that depends on nothing but its position (SplitMix64).
  float Coordinate(uint64_t position) const {
    uint64_t z = seed_ + (position + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<float>((z ^ (z >> 31)) >> 40) / static_cast<float>(1 << 23) - 1;
  }

  const uint64_t records_;
  const uint64_t seed_;
  const std::vector<FeatureType> columns_ = {{"x", DType::kFloat32, {2}},
                                             {"height", DType::kFloat32, {}}};
};

SourceClass WavesSource() {
  return {.schema = {.name = "Waves",
                     .doc = "Points of a square and the heights of a wave there.",
                     .arguments = {Int("records", "Number of records.").AtLeast(1),
                                   Int("seed", "Chooses the points.").Default(0).AtLeast(0)}},
          .open = [](const Config& config,
                     const SourceContext&) -> absl::StatusOr<std::shared_ptr<const RecordSource>> {
            return std::make_shared<Waves>(config.Int("records"), config.Int("seed"));
          }};
}

// ---------------------------------------------------------------- a transform: runs on workers

// [n] -> [2 n]: the sine and the cosine of each number times `frequency`.
absl::StatusOr<RecordTransform> OpenSinCos(const Config& config,
                                           std::span<const FeatureType> inputs) {
  if (inputs[0].dtype != DType::kFloat32 || inputs[0].dims.size() != 1) {
    return InvalidArgument("SinCos needs a column of float32 with one axis");
  }
  const auto frequency = static_cast<float>(config.Float("frequency"));
  return RecordTransform{
      DType::kFloat32,
      {2 * inputs[0].dims[0]},
      [frequency](const RecordContext&, std::span<const std::span<const std::byte>> values,
                  std::span<std::byte> output) {
        const auto* const x = reinterpret_cast<const float*>(values[0].data());
        auto* const y = reinterpret_cast<float*>(output.data());
        for (size_t i = 0; i < values[0].size() / sizeof(float); ++i) {
          y[2 * i] = std::sin(frequency * x[i]);
          y[2 * i + 1] = std::cos(frequency * x[i]);
        }
        return absl::OkStatus();
      }};
}

TransformClass SinCosTransform() {
  return {.schema = {.name = "SinCos",
                     .doc = "The sine and the cosine of each number.",
                     .arguments = {Float("frequency", "Multiplies the numbers.").Default(1.0)}},
          .open = OpenSinCos};
}

// ---------------------------------------------------------------- a layer: built by the chief

// y = activation(factors * x) over the last axis, with trained factors. Workers see only operations
// that they know; autodiff adds the gradient.
absl::StatusOr<LayerOutput> BuildScale(LayerContext* context) {
  const Expr x = context->FloatInput(0);
  if (!x.valid()) return LayerOutput{};
  COHORT_ASSIGN_OR_RETURN(
      const Expr factors,
      context->Weight("factors", {x.type().dims.back().size}, "factors_initializer"));
  return Activate(context->config.Object("activation"), {x * factors, {}});
}

LayerClass ScaleLayer() {
  return {
      .schema = LayerSchema("Scale", "Multiplies the last axis by trained factors.",
                            {InitializerArgument("factors_initializer", "Ones", "First factors."),
                             ActivationArgument("activation", "linear", "The activation.")}),
      .build = BuildScale};
}

// ---------------------------------------------------------------- a loss: built by the chief

// sqrt(1 + error^2) - 1: quadratic near 0 and linear far away. The mean over the last axis.
absl::StatusOr<Expr> ElementwisePseudoHuber(const Config&, LayerOutput prediction, Expr label) {
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  return ReduceMean(Sqrt(1.0 + Square(prediction.value - label)) - 1.0, {-1});
}

LossClass PseudoHuberLoss() {
  return {.schema = LossSchema("PseudoHuber", {}, "mean(sqrt(1 + (prediction - label)^2) - 1)", {}),
          .elementwise = ElementwisePseudoHuber};
}

// ---------------------------------------------------------------- a metric and its finalizer

// The share of the label's variance that the prediction explains: 1 - residual / total. The program
// adds up four numbers over all batches and workers; the finalizer makes the value of them.
absl::StatusOr<MetricValue> ExplainedVariance(const Config&, const MetricInput& input) {
  LayerOutput prediction = input.prediction;
  Expr label = input.label;
  COHORT_RETURN_IF_ERROR(FitLabel(&label, &prediction));
  Expr weight = BroadcastLike(label.builder()->Scalar(1, label.dtype()), label);
  if (input.weight.valid()) {
    COHORT_ASSIGN_OR_RETURN(weight, WeightLike(input.weight, label));
  }
  return ValueOf("ExplainedVariance",
                 {{"residual", ReduceSum(Square(prediction.value - label) * weight)},
                  {"sum", ReduceSum(label * weight)},
                  {"squares", ReduceSum(Square(label) * weight)},
                  {"count", ReduceSum(weight)}});
}

MetricClass ExplainedVarianceMetric() {
  return {
      .schema = MetricSchema("ExplainedVariance", {}, "1 - residual / variance of the label.", {}),
      .make = ExplainedVariance,
      .higher_is_better = true};
}

FinalizerClass ExplainedVarianceFinalizer() {
  return {.schema = {.name = "ExplainedVariance", .doc = "1 - residual / variance."},
          .accumulators = {"residual", "sum", "squares", "count"},
          .finalize = [](const Config&, std::span<const std::span<const double>> a) {
            const double variance = a[2][0] - a[1][0] * a[1][0] / a[3][0];
            return variance > 0 ? 1 - a[0][0] / variance : 0.0;
          }};
}

}  // namespace

COHORT_PLUGIN(registry) {
  registry->AddSource(WavesSource);
  registry->AddTransform(SinCosTransform);
  registry->AddFinalizer(ExplainedVarianceFinalizer);
  registry->AddLayer(ScaleLayer);
  registry->AddLoss(PseudoHuberLoss);
  registry->AddMetric(ExplainedVarianceMetric);
}
