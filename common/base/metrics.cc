#include "common/base/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <variant>

#include "common/base/mutex.h"

namespace cohort {
namespace {

using Callback = std::function<double()>;
// A callback whose value only increases.
struct CounterCallback {
  Callback read;
};
using Metric = std::variant<std::unique_ptr<Counter>, std::unique_ptr<Gauge>,
                            std::unique_ptr<Histogram>, Callback, CounterCallback>;

prometheus::MetricType TypeOf(const Metric& metric) {
  if (std::holds_alternative<std::unique_ptr<Counter>>(metric) ||
      std::holds_alternative<CounterCallback>(metric)) {
    return prometheus::MetricType::Counter;
  }
  if (std::holds_alternative<std::unique_ptr<Histogram>>(metric)) {
    return prometheus::MetricType::Histogram;
  }
  return prometheus::MetricType::Gauge;
}

struct Read {
  prometheus::ClientMetric* out;

  void operator()(const std::unique_ptr<Counter>& counter) const {
    out->counter.value = static_cast<double>(counter->value());
  }
  void operator()(const std::unique_ptr<Gauge>& gauge) const { out->gauge.value = gauge->value(); }
  void operator()(const Callback& callback) const { out->gauge.value = callback(); }
  void operator()(const CounterCallback& callback) const { out->counter.value = callback.read(); }
  void operator()(const std::unique_ptr<Histogram>& histogram) const {
    uint64_t below = 0;
    for (size_t i = 0; i <= histogram->bounds().size(); ++i) {
      below += histogram->bucket(i);
      const double bound = i < histogram->bounds().size() ? histogram->bounds()[i]
                                                          : std::numeric_limits<double>::infinity();
      out->histogram.bucket.push_back({below, bound});
    }
    // The count is the sum of the buckets just read, so it never contradicts them.
    out->histogram.sample_count = below;
    out->histogram.sample_sum = histogram->sum();
  }
};

struct Family {
  std::string help;
  std::map<MetricLabels, Metric> metrics;
};

}  // namespace

Histogram::Histogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(new std::atomic<uint64_t>[bounds_.size() + 1]()) {}

void Histogram::Observe(double value) {
  const auto it = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  counts_[static_cast<size_t>(it - bounds_.begin())].fetch_add(1, std::memory_order_relaxed);
  sum_.fetch_add(value, std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (size_t i = 0; i <= bounds_.size(); ++i) total += bucket(i);
  return total;
}

std::vector<double> ExponentialBounds(double first, double factor, int count) {
  std::vector<double> bounds;
  for (double bound = first; count > 0; --count, bound *= factor) bounds.push_back(bound);
  return bounds;
}

class MetricsRegistry::Impl {
 public:
  // Returns the metric of this name and these labels; adds `fresh` if there is none.
  template <typename Kind>
  Kind& FindOrAdd(std::string_view name, std::string_view help, const MetricLabels& labels,
                  Kind fresh) {
    MutexLock lock(&mu_);
    Family& family = families_.try_emplace(std::string(name)).first->second;
    family.help = help;
    Metric wanted(std::move(fresh));
    if (!family.metrics.empty() && TypeOf(family.metrics.begin()->second) != TypeOf(wanted)) {
      std::fprintf(stderr, "metric %s is used for two kinds\n", std::string(name).c_str());
      std::abort();
    }
    // Nodes of a map do not move, so the handle stays valid after the lock is released.
    return std::get<Kind>(family.metrics.try_emplace(labels, std::move(wanted)).first->second);
  }

  void AddPreparation(std::function<void()> prepare) {
    MutexLock lock(&reading_);
    preparations_.push_back(std::move(prepare));
  }

  std::vector<prometheus::MetricFamily> Collect() const {
    MutexLock reading(&reading_);
    for (const auto& prepare : preparations_) prepare();
    MutexLock lock(&mu_);
    std::vector<prometheus::MetricFamily> result;
    for (const auto& [name, family] : families_) {
      auto& out = result.emplace_back();
      out.name = name;
      out.help = family.help;
      out.type = TypeOf(family.metrics.begin()->second);
      for (const auto& [labels, metric] : family.metrics) {
        auto& one = out.metric.emplace_back();
        for (const auto& [key, value] : labels) one.label.push_back({key, value});
        std::visit(Read{&one}, metric);
      }
    }
    return result;
  }

 private:
  mutable Mutex reading_ ABSL_ACQUIRED_BEFORE(mu_);
  mutable Mutex mu_;
  std::map<std::string, Family> families_ ABSL_GUARDED_BY(mu_);
  std::vector<std::function<void()>> preparations_ ABSL_GUARDED_BY(reading_);
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter* MetricsRegistry::AddCounter(std::string_view name, std::string_view help,
                                     const MetricLabels& labels) {
  return impl_->FindOrAdd(name, help, labels, std::make_unique<Counter>()).get();
}

Gauge* MetricsRegistry::AddGauge(std::string_view name, std::string_view help,
                                 const MetricLabels& labels) {
  return impl_->FindOrAdd(name, help, labels, std::make_unique<Gauge>()).get();
}

Histogram* MetricsRegistry::AddHistogram(std::string_view name, std::string_view help,
                                         std::vector<double> bounds, const MetricLabels& labels) {
  return impl_->FindOrAdd(name, help, labels, std::make_unique<Histogram>(std::move(bounds))).get();
}

void MetricsRegistry::AddCallback(std::string_view name, std::string_view help,
                                  std::function<double()> read, const MetricLabels& labels) {
  if (name.ends_with("_total")) {
    impl_->FindOrAdd(name, help, labels, CounterCallback{std::move(read)});
  } else {
    impl_->FindOrAdd(name, help, labels, Callback(std::move(read)));
  }
}

void MetricsRegistry::AddPreparation(std::function<void()> prepare) {
  impl_->AddPreparation(std::move(prepare));
}

std::string MetricsRegistry::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->Collect());
}

}  // namespace cohort
