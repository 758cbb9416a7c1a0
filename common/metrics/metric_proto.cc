#include "common/metrics/metric_proto.h"

#include <cmath>

#include "common/base/status.h"
#include "common/metrics/finalizers.h"
#include "proto/metrics.pb.h"

namespace cohort {
namespace {

// True for what the fields `total` and `count` can hold.
bool IsShort(const MetricState& state) {
  const auto& a = state.accumulators;
  return IsMean(state.finalizer) && a.size() == 2 && a[0].name == kTotal && a[1].name == kCount &&
         a[0].reduction == Reduction::kSum && a[1].reduction == Reduction::kSum &&
         a[0].values.size() == 1 && a[1].values.size() == 1;
}

absl::Status CheckAccumulators(const v1::MetricValue& value, const MetricLimits& limits,
                               size_t* elements) {
  *elements = 0;
  for (const v1::AccumulatorValue& a : value.accumulators()) {
    if (a.name().size() > limits.max_name_bytes) {
      return InvalidArgument("the name of an accumulator has {} bytes", a.name().size());
    }
    if (a.reduction() < v1::REDUCE_SUM || a.reduction() > v1::REDUCE_MAX) {
      return InvalidArgument("accumulator '{}' has the unknown reduction {}", a.name(),
                             static_cast<int>(a.reduction()));
    }
    if (a.values().empty()) return InvalidArgument("accumulator '{}' has no values", a.name());
    *elements += static_cast<size_t>(a.values_size());
  }
  if (*elements <= limits.max_elements) return absl::OkStatus();
  return InvalidArgument("its accumulators have {} elements, at most {} are allowed", *elements,
                         limits.max_elements);
}

absl::Status Check(const v1::MetricValue& value, const MetricLimits& limits, size_t* elements) {
  if (value.name().size() > limits.max_name_bytes) {
    return InvalidArgument("its name has {} bytes", value.name().size());
  }
  if (value.finalizer().ByteSizeLong() > limits.max_finalizer_bytes) {
    return InvalidArgument("its finalizer has {} bytes", value.finalizer().ByteSizeLong());
  }
  const auto accumulators = static_cast<size_t>(value.accumulators_size());
  if (accumulators > limits.max_accumulators) {
    return InvalidArgument("it has {} accumulators, at most {} are allowed", accumulators,
                           limits.max_accumulators);
  }
  return CheckAccumulators(value, limits, elements);
}

}  // namespace

absl::Status CheckMetricValues(const MetricValues& metrics) {
  const MetricLimits limits;
  if (static_cast<size_t>(metrics.size()) > limits.max_metrics) {
    return InvalidArgument("{} metrics, at most {} are allowed", metrics.size(),
                           limits.max_metrics);
  }
  size_t all = 0;
  for (const v1::MetricValue& value : metrics) {
    size_t elements = 0;
    if (absl::Status status = Check(value, limits, &elements); !status.ok()) {
      return Annotate(std::move(status), fmt::format("metric '{}'", value.name().substr(0, 60)));
    }
    all += elements;
  }
  if (all <= limits.max_message_elements) return absl::OkStatus();
  return InvalidArgument("the metrics have {} elements, at most {} are allowed", all,
                         limits.max_message_elements);
}

MetricState MetricFromProto(const v1::MetricValue& value) {
  if (value.accumulators().empty()) return MeanState(value.name(), value.total(), value.count());
  MetricState state{.name = value.name()};
  if (value.has_finalizer()) {
    state.finalizer = std::make_shared<const v1::ClassConfig>(value.finalizer());
  }
  state.accumulators.reserve(static_cast<size_t>(value.accumulators_size()));
  for (const v1::AccumulatorValue& a : value.accumulators()) {
    state.accumulators.push_back(
        {a.name(), static_cast<Reduction>(a.reduction()), {a.values().begin(), a.values().end()}});
  }
  return state;
}

bool FoldMetricValue(const v1::MetricValue& value, MetricState* into) {
  if (value.accumulators().empty() && IsShort(*into)) {
    into->accumulators[0].values[0] += value.total();
    into->accumulators[1].values[0] += value.count();
    return std::isfinite(value.total()) && std::isfinite(value.count());
  }
  const MetricState part = MetricFromProto(value);
  FoldMetric(part, into);
  return part.finite();
}

std::vector<MetricState> MetricsFromProto(const MetricValues& values) {
  std::vector<MetricState> states;
  states.reserve(static_cast<size_t>(values.size()));
  for (const v1::MetricValue& value : values) states.push_back(MetricFromProto(value));
  return states;
}

void MetricToProto(const MetricState& state, v1::MetricValue* value) {
  value->set_name(state.name);
  if (IsShort(state)) {
    value->set_total(state.accumulators[0].values[0]);
    value->set_count(state.accumulators[1].values[0]);
    return;
  }
  if (state.finalizer != nullptr) *value->mutable_finalizer() = *state.finalizer;
  for (const Accumulator& a : state.accumulators) {
    v1::AccumulatorValue* out = value->add_accumulators();
    out->set_name(a.name);
    out->set_reduction(static_cast<v1::Reduction>(a.reduction));
    out->mutable_values()->Add(a.values.begin(), a.values.end());
  }
}

void MetricsToProto(std::span<const MetricState> states, MetricValues* values) {
  for (const MetricState& state : states) MetricToProto(state, values->Add());
}

}  // namespace cohort
