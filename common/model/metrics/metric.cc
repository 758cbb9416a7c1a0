#include "common/model/metrics/metric.h"

#include "common/model/layers/masks.h"

namespace cohort {

ClassSchema MetricSchema(std::string_view name, std::vector<std::string> aliases,
                         std::string_view doc, std::vector<Argument> arguments) {
  // keras/src/metrics/metric.py
  arguments.push_back(String("name", "The name in reports.").Default(SnakeCase(name)));
  arguments.push_back(String("dtype", "Has no effect: accumulators are float64.")
                          .Optional()
                          .OneOf({"float32", "float64"}));
  return {std::string(name), std::move(aliases), std::string(doc), std::move(arguments)};
}

absl::StatusOr<MetricValue> MakeMetric(const v1::ClassConfig& config, LayerOutput prediction,
                                       Expr label) {
  COHORT_ASSIGN_OR_RETURN(const MetricClass* metric, Metrics().Find(config.class_name()));
  if (!prediction.value.valid() || !label.valid()) return MetricValue{};
  COHORT_ASSIGN_OR_RETURN(MetricValue value, metric->make(Config(config), prediction, label));
  if (!value.elements.valid() || !prediction.mask.valid()) return value;
  COHORT_ASSIGN_OR_RETURN(const MaskedElements kept, MaskElements(value.elements, prediction.mask));
  value.accumulators = MeanOf(ReduceSum(kept.elements), kept.count).accumulators;
  return value;
}

MetricValue MeanOf(Expr total, Expr count) {
  MetricValue mean;
  mean.finalizer.set_class_name("Mean");
  mean.accumulators = {{kTotal, total}, {kCount, count}};
  return mean;
}

MetricValue MeanOf(Expr elements) {
  MetricValue mean = MeanOf(ReduceSum(elements), NumElements(elements));
  mean.elements = elements;
  return mean;
}

MetricValue MeanOf(Expr matches, DType dtype) { return MeanOf(Cast(matches, dtype)); }

Expr NonZero(Expr x) { return 1.0 - Cast(Equal(x, x.builder()->Scalar(0, x.dtype())), x.dtype()); }

namespace {

// The rows of a size that the value consists of; -1: their number is bounded.
int64_t RowsOf(const ValueType& type, int64_t size) {
  const bool bounded = !type.dims.empty() && type.dims[0].bounded();
  return bounded ? -1 : CapacityElements(type) / size;
}

}  // namespace

Expr AsRows(Expr x, int64_t size) { return Reshape(x, {RowsOf(x.type(), size), size}); }
Expr AsVector(Expr x) { return Reshape(x, {RowsOf(x.type(), 1)}); }

}  // namespace cohort
