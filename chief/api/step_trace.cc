#include "chief/api/step_trace.h"

#include <utility>

#include "common/base/status.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"
#include "common/model/losses/sample_weight.h"
#include "common/model/metrics/metric.h"

namespace cohort {

StepTrace::StepTrace(std::string_view name, int64_t batch_size, StepMode mode)
    : batch_size_(batch_size),
      mode_(mode),
      builder_(std::string(name)),
      batch_(builder_.AddSymbol("batch", batch_size)) {}

Expr StepTrace::Input(std::string_view name, DType dtype, const std::vector<int64_t>& shape) {
  ValueType type{dtype, {{batch_size_, batch_}}};
  for (const int64_t size : shape) type.dims.push_back({size, 0});
  return builder_.Input(std::string(name), std::move(type));
}

Expr StepTrace::Read(const Variable& variable) {
  return builder_.Read(variable.name, variable.type);
}

Expr StepTrace::Lookup(const Variable& table, Expr ids) {
  if (!ids.valid()) return Expr();
  const auto [keys, position] = Unique(Cast(ids, DType::kInt64));
  return Gather(builder_.ReadRows(table.name, table.type, keys), position);
}

LayerOutput StepTrace::OutputOf(Expr value) const {
  const auto it = outputs_.find(value.id());
  return it == outputs_.end() ? LayerOutput(value) : it->second;
}

absl::StatusOr<Expr> StepTrace::LossOf(const KerasClass& loss, Expr prediction, Expr label,
                                       Expr sample_weight) const {
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig config, CompleteConfig(Losses(), loss.config()));
  const Config arguments(config);
  const std::string reduction =
      arguments.IsNone("reduction") ? "none" : arguments.String("reduction");
  constexpr std::string_view kInstead =
      "`Loss` returns the losses of the examples, whose mean a step minimizes: call "
      "Minimize(loss, prediction, label, sample_weight) instead";
  if (reduction != "none" && reduction != "mean" && reduction != "sum_over_batch_size") {
    return InvalidArgument("`reduction` {}: {}", reduction, kInstead);
  }
  const LayerOutput output = OutputOf(prediction);
  COHORT_ASSIGN_OR_RETURN(const LossElements elements, ElementwiseLoss(config, output, label));
  const Expr values = elements.values;
  if (!values.valid()) return Expr();
  if (elements.mask.valid()) return InvalidArgument("`ignore_class`: {}", kInstead);
  if (output.mask.valid() && values.rank() > 0) {
    return InvalidArgument("a prediction with masked steps: {}", kInstead);
  }
  if (!sample_weight.valid()) return values;
  if (values.rank() == 0) return values * Cast(sample_weight, values.dtype());
  COHORT_ASSIGN_OR_RETURN(const Expr weight, AlignWeight(sample_weight, values.type()));
  return values * weight;
}

Expr StepTrace::Loss(const KerasClass& loss, Expr prediction, Expr label, Expr sample_weight) {
  const auto losses = LossOf(loss, prediction, label, sample_weight);
  if (losses.ok()) return *losses;
  builder_.Fail(Annotate(losses.status(), fmt::format("loss {}", loss.name)));
  return Expr();
}

Expr StepTrace::Minimize(Expr losses) {
  if (!losses.valid()) return Expr();
  const Expr total = ReduceSum(losses);
  const Expr count = NumElements(losses);
  return MinimizeSums(total, count, /*per_record=*/1, losses);
}

absl::StatusOr<Expr> StepTrace::MinimizeLoss(const KerasClass& loss, Expr prediction, Expr label,
                                             Expr sample_weight) {
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig config, CompleteConfig(Losses(), loss.config()));
  const LayerOutput output = OutputOf(prediction);
  COHORT_ASSIGN_OR_RETURN(LossElements elements, ElementwiseLoss(config, output, label));
  COHORT_RETURN_IF_ERROR(MaskLoss(output.mask, &elements));
  if (!elements.values.valid()) return Expr();
  const Expr batch = elements.values.rank() > 0 ? elements.values : prediction;
  COHORT_ASSIGN_OR_RETURN(const LossSums sums, ReduceLoss(config, elements, sample_weight, batch));
  return MinimizeSums(sums.total, sums.weight, sums.per_record, batch);
}

Expr StepTrace::Minimize(const KerasClass& loss, Expr prediction, Expr label, Expr sample_weight) {
  const auto minimized = MinimizeLoss(loss, prediction, label, sample_weight);
  if (minimized.ok()) return *minimized;
  builder_.Fail(Annotate(minimized.status(), fmt::format("loss {}", loss.name)));
  return Expr();
}

Expr StepTrace::MinimizeSums(Expr total, Expr weight, double per_record, Expr batch) {
  for (const auto& [variable, penalty] : penalties_) total = total + weight * penalty;
  if (per_record > 0) {
    builder_.AddMetric("loss", total, weight);
  } else {
    const Expr records = DimSize(batch, 0);
    builder_.AddMetric("loss", records * (total / weight), records);
  }
  if (mode_ == StepMode::kTrain) {
    builder_.SetLoss(weight);
    const auto trainable = [this](std::string_view name) { return !frozen_.contains(name); };
    builder_.Fail(PushGradients(&builder_, total, trainable));
  }
  return total / weight;
}

void StepTrace::Metric(const KerasClass& metric, Expr prediction, Expr label, Expr sample_weight) {
  auto config = CompleteConfig(Metrics(), metric.config());
  auto value = config.ok() ? MakeMetric(*config, {OutputOf(prediction), label, sample_weight})
                           : absl::StatusOr<MetricValue>(config.status());
  if (!value.ok()) {
    builder_.Fail(Annotate(value.status(), fmt::format("metric {}", metric.name)));
    return;
  }
  AddMetric(Config(*config).String("name"), *value, &builder_);
}

void StepTrace::Output(std::string_view name, Expr value) {
  builder_.AddOutput(std::string(name), value);
}

absl::StatusOr<Program> TraceStep(std::string_view name, int64_t batch_size,
                                  const std::function<void(StepTrace*)>& step, StepMode mode) {
  if (batch_size < 1) return InvalidArgument("step '{}': the batch size is {}", name, batch_size);
  StepTrace trace(name, batch_size, mode);
  step(&trace);
  auto program = std::move(trace.builder_).Build();
  if (!program.ok()) return Annotate(program.status(), fmt::format("step '{}'", name));
  return program;
}

}  // namespace cohort
