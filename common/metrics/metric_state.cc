#include "common/metrics/metric_state.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "common/metrics/finalizers.h"

namespace cohort {
namespace {

bool SameShape(const MetricState& a, const MetricState& b) {
  return std::equal(a.accumulators.begin(), a.accumulators.end(), b.accumulators.begin(),
                    b.accumulators.end(), [](const Accumulator& x, const Accumulator& y) {
                      return x.name == y.name && x.reduction == y.reduction &&
                             x.values.size() == y.values.size();
                    });
}

}  // namespace

double MetricState::Value() const {
  const auto value = Finalize(*this);
  return value.ok() ? *value : std::numeric_limits<double>::quiet_NaN();
}

bool MetricState::finite() const {
  return std::all_of(accumulators.begin(), accumulators.end(), [](const Accumulator& a) {
    return a.reduction != Reduction::kSum ||
           std::all_of(a.values.begin(), a.values.end(), [](double x) { return std::isfinite(x); });
  });
}

double MetricState::Scalar(std::string_view accumulator) const {
  for (const Accumulator& a : accumulators) {
    if (a.name == accumulator && !a.values.empty()) return a.values[0];
  }
  return 0;
}

MetricState MeanState(std::string name, double total, double count) {
  return {std::move(name),
          nullptr,
          {{kTotal, Reduction::kSum, {total}}, {kCount, Reduction::kSum, {count}}}};
}

void Fold(Reduction reduction, std::span<const double> part, std::span<double> into) {
  assert(part.size() == into.size());
  for (size_t i = 0; i < part.size(); ++i) {
    switch (reduction) {
      case Reduction::kSum:
        into[i] += part[i];
        break;
      case Reduction::kMin:
        into[i] = std::min(into[i], part[i]);
        break;
      case Reduction::kMax:
        into[i] = std::max(into[i], part[i]);
        break;
    }
  }
}

void FoldMetric(const MetricState& part, MetricState* into) {
  if (!SameShape(part, *into)) {
    *into = part;
    return;
  }
  into->finalizer = part.finalizer;
  for (size_t i = 0; i < part.accumulators.size(); ++i) {
    Fold(part.accumulators[i].reduction, part.accumulators[i].values, into->accumulators[i].values);
  }
}

void FoldMetrics(std::span<const MetricState> parts, std::vector<MetricState>* into) {
  for (const MetricState& part : parts) {
    const auto found = std::find_if(into->begin(), into->end(), [&](const MetricState& state) {
      return state.name == part.name;
    });
    if (found == into->end()) {
      into->push_back(part);
    } else {
      FoldMetric(part, &*found);
    }
  }
}

}  // namespace cohort
