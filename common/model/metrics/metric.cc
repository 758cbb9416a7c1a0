#include "common/model/metrics/metric.h"

#include "common/model/losses/sample_weight.h"

namespace cohort {

ClassSchema MetricSchema(std::string_view name, std::vector<std::string> aliases,
                         std::string_view doc, std::vector<Argument> arguments,
                         std::string_view default_name) {
  // keras/src/metrics/metric.py
  arguments.push_back(
      String("name", "The name in reports.")
          .Default(default_name.empty() ? SnakeCase(name) : std::string(default_name)));
  arguments.push_back(String("dtype", "Has no effect: accumulators are float64.")
                          .Optional()
                          .OneOf({"float32", "float64", "int", "int32", "int64"}));
  return {std::string(name), std::move(aliases), std::string(doc), std::move(arguments)};
}

absl::StatusOr<MetricValue> MakeMetric(const v1::ClassConfig& config, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const MetricClass* metric, Metrics().Find(config.class_name()));
  if (!input.prediction.value.valid() || !input.label.valid()) return MetricValue{};
  return metric->make(Config(config), input);
}

void AddMetric(const std::string& name, const MetricValue& value, ProgramBuilder* builder) {
  if (value.parts.empty()) return builder->AddMetric(name, value.finalizer, value.accumulators);
  for (size_t i = 0; i < value.parts.size(); ++i) {
    AddMetric(value.parts.size() == 1 ? name : fmt::format("{}_{}", name, i), value.parts[i],
              builder);
  }
}

MetricValue ValueOf(std::string_view finalizer, std::vector<MetricExpr> accumulators) {
  MetricValue value;
  value.finalizer.set_class_name(std::string(finalizer));
  value.accumulators = std::move(accumulators);
  return value;
}

MetricValue SumOf(Expr elements) { return ValueOf("Single", {{kTotal, ReduceSum(elements)}}); }

MetricValue RatioOf(Expr total, Expr count) {
  return ValueOf("Mean", {{kTotal, total}, {kCount, count}});
}

absl::StatusOr<MetricValue> WeightedMean(Expr elements, Expr weight) {
  if (!weight.valid()) return RatioOf(ReduceSum(elements), NumElements(elements));
  COHORT_ASSIGN_OR_RETURN(const Expr each, WeightLike(weight, elements));
  return RatioOf(ReduceSum(elements * each), ReduceSum(each));
}

absl::StatusOr<Expr> WeightWithoutMasked(const MetricInput& input) {
  const Expr mask = input.prediction.mask;
  if (!mask.valid()) return input.weight;
  const Expr counts = Cast(mask, input.prediction.value.dtype());
  if (!input.weight.valid()) return counts;
  if (input.weight.rank() > mask.rank()) {
    const ValueType type{counts.dtype(), input.weight.type().dims};
    COHORT_ASSIGN_OR_RETURN(const Expr aligned, AlignWeight(counts, type));
    return Cast(input.weight, counts.dtype()) * aligned;
  }
  COHORT_ASSIGN_OR_RETURN(const Expr aligned, AlignWeight(input.weight, counts.type()));
  return aligned * counts;
}

absl::StatusOr<MetricValue> MeanOf(Expr elements, const MetricInput& input) {
  COHORT_ASSIGN_OR_RETURN(const Expr weight, WeightWithoutMasked(input));
  return WeightedMean(elements, weight);
}

absl::StatusOr<MetricValue> MeanOf(Expr matches, DType dtype, const MetricInput& input) {
  return MeanOf(Cast(matches, dtype), input);
}

absl::StatusOr<Expr> WeightLike(Expr weight, Expr like) {
  if (!like.valid()) return Expr();
  COHORT_ASSIGN_OR_RETURN(const Expr aligned, AlignWeight(weight, like.type()));
  return BroadcastLike(aligned, like);
}

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
