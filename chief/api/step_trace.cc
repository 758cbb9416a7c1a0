#include "chief/api/step_trace.h"

#include <utility>

#include "common/base/status.h"
#include "common/graph/autodiff.h"

namespace cohort {

StepTrace::StepTrace(std::string_view name, int64_t batch_size)
    : batch_size_(batch_size),
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

Expr StepTrace::Minimize(Expr losses) {
  if (!losses.valid()) return Expr();
  const Expr sum = ReduceSum(losses);
  const Expr count = NumElements(losses);
  builder_.SetLoss(count);
  if (const absl::Status pushed = PushGradients(&builder_, sum); !pushed.ok()) {
    builder_.Fail(pushed);
    return Expr();
  }
  builder_.AddMetric("loss", sum, count);
  return sum / count;
}

void StepTrace::Output(std::string_view name, Expr value) {
  builder_.AddOutput(std::string(name), value);
}

absl::StatusOr<Program> TraceStep(std::string_view name, int64_t batch_size,
                                  const std::function<void(StepTrace*)>& step) {
  if (batch_size < 1) return InvalidArgument("step '{}': the batch size is {}", name, batch_size);
  StepTrace trace(name, batch_size);
  step(&trace);
  auto program = std::move(trace.builder_).Build();
  if (!program.ok()) return Annotate(program.status(), fmt::format("step '{}'", name));
  return program;
}

}  // namespace cohort
