// The plugin of plugin_test.cc.
#include "common/graph/expr.h"
#include "common/plugin/plugin_registry.h"

namespace {

using namespace cohort;

SourceClass NothingSource() {
  return {.schema = {.name = "Nothing", .doc = "No records.", .arguments = {}},
          .open = [](const Config&,
                     const SourceContext&) -> absl::StatusOr<std::shared_ptr<const RecordSource>> {
            return NotFound("there are no records");
          }};
}

TransformClass SameTransform() {
  return {.schema = {.name = "Same", .doc = "Its input.", .arguments = {}}};
}

FinalizerClass HalfFinalizer() {
  return {.schema = {.name = "Half", .doc = "Half of a number."},
          .finalize = [](const Config&, std::span<const std::span<const double>> a) {
            return a[0][0] / 2;
          }};
}

LayerClass HalveLayer() {
  return {.schema = LayerSchema("Halve", "Half of the input.", {}),
          .build = [](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            return LayerOutput{context->FloatInput(0) * 0.5, {}};
          }};
}

LossClass ZeroLoss() {
  return {.schema = LossSchema("Zero", {}, "0", {}),
          .elementwise = [](const Config&, LayerOutput prediction, Expr) -> absl::StatusOr<Expr> {
            return prediction.value * 0.0;
          }};
}

MetricClass HalfMetric() {
  return {.schema = MetricSchema("Half", {}, "Half of the mean.", {}),
          .make = [](const Config&, const MetricInput& input) -> absl::StatusOr<MetricValue> {
            return MeanOf(input.prediction.value * 0.5, input);
          }};
}

}  // namespace

COHORT_PLUGIN(registry) {
  registry->AddSource(NothingSource);
  registry->AddTransform(SameTransform);
  registry->AddFinalizer(HalfFinalizer);
  registry->AddLayer(HalveLayer);
  registry->AddLoss(ZeroLoss);
  registry->AddMetric(HalfMetric);
}
