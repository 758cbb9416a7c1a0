#include "common/exec/metric_fold.h"

#include <algorithm>
#include <span>

#include "common/metrics/finalizers.h"
#include "proto/metrics.pb.h"

namespace cohort {
namespace {

size_t ElementsOf(const Program& program, const MetricAccumulator& accumulator) {
  return static_cast<size_t>(CapacityElements(program.type(accumulator.value)));
}

}  // namespace

void MetricFold::Add(const Executable& executable) {
  const std::span<const double> step = executable.metric_values();
  if (values_.empty()) {
    values_.assign(step.begin(), step.end());
    return;
  }
  const Program& program = executable.program();
  size_t at = 0;
  for (const MetricPartial& metric : program.metrics) {
    for (const MetricAccumulator& a : metric.accumulators) {
      const size_t elements = ElementsOf(program, a);
      Fold(a.reduction, step.subspan(at, elements), std::span(values_).subspan(at, elements));
      at += elements;
    }
  }
}

void MetricFold::ToProto(const Program& program, MetricValues* out) const {
  const auto is_scalar = [&](const MetricAccumulator& a, const char* name) {
    return a.name == name && a.reduction == Reduction::kSum && ElementsOf(program, a) == 1;
  };
  const bool means =
      std::all_of(program.metrics.begin(), program.metrics.end(), [&](const MetricPartial& metric) {
        const auto& a = metric.accumulators;
        return IsMean(metric.finalizer) && a.size() == 2 && is_scalar(a[0], kTotal) &&
               is_scalar(a[1], kCount);
      });
  if (!means) return MetricsToProto(States(program), out);
  for (size_t i = 0; i < values_.size() / 2; ++i) {
    v1::MetricValue* const value = out->Add();
    value->set_name(program.metrics[i].name);
    value->set_total(values_[2 * i]);
    value->set_count(values_[2 * i + 1]);
  }
}

std::vector<MetricState> MetricFold::States(const Program& program) const {
  std::vector<MetricState> states;
  if (values_.empty()) return states;
  auto at = values_.begin();
  for (const MetricPartial& metric : program.metrics) {
    MetricState& state = states.emplace_back(MetricState{metric.name, metric.finalizer, {}});
    for (const MetricAccumulator& a : metric.accumulators) {
      const auto end = at + static_cast<std::ptrdiff_t>(ElementsOf(program, a));
      state.accumulators.push_back({a.name, a.reduction, {at, end}});
      at = end;
    }
  }
  return states;
}

}  // namespace cohort
