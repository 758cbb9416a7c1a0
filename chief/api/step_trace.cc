#include "chief/api/step_trace.h"

#include <utility>

#include "common/base/status.h"
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/model/losses/loss.h"
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

Expr StepTrace::Loss(const KerasClass& loss, Expr prediction, Expr label) {
  auto losses = CompleteConfig(Losses(), loss.config());
  auto elements = losses.ok() ? ElementwiseLoss(*losses, OutputOf(prediction), label)
                              : absl::StatusOr<LossElements>(losses.status());
  if (elements.ok() && elements->mask.valid()) {
    elements = Unimplemented("a step reduces its losses itself, so they have no `ignore_class`");
  }
  if (elements.ok()) return elements->values;
  builder_.Fail(Annotate(elements.status(), fmt::format("loss {}", loss.name)));
  return Expr();
}

Expr StepTrace::Minimize(Expr losses) {
  if (!losses.valid()) return Expr();
  Expr sum = ReduceSum(losses);
  const Expr count = NumElements(losses);
  for (const auto& [variable, penalty] : penalties_) sum = sum + count * penalty;
  builder_.AddMetric("loss", sum, count);
  if (mode_ == StepMode::kTrain) {
    builder_.SetLoss(count);
    const auto trainable = [this](std::string_view name) { return !frozen_.contains(name); };
    builder_.Fail(PushGradients(&builder_, sum, trainable));
  }
  return sum / count;
}

void StepTrace::Metric(const KerasClass& metric, Expr prediction, Expr label) {
  auto config = CompleteConfig(Metrics(), metric.config());
  auto value = config.ok() ? MakeMetric(*config, {OutputOf(prediction), label, {}})
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
