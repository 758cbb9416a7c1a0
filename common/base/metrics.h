#ifndef COHORT_COMMON_BASE_METRICS_H_
#define COHORT_COMMON_BASE_METRICS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cohort {

// Metrics that a task exports to Prometheus. The registry owns the handles, which live as long as
// it does. An update takes no lock: one relaxed atomic operation (three for a histogram) on a cache
// line of its own.

// Only increases. By convention its name ends in _total.
class alignas(64) Counter {
 public:
  void Increment(uint64_t by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Increases and decreases.
class alignas(64) Gauge {
 public:
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  void Add(double by) { value_.fetch_add(by, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Counts observations by upper bound.
class alignas(64) Histogram {
 public:
  // Ascending inclusive upper bounds. Values above the last bound are counted too.
  explicit Histogram(std::vector<double> bounds);
  void Observe(double value);
  std::span<const double> bounds() const { return bounds_; }
  // The count of bucket i; bucket bounds().size() holds the values above the last bound. Not
  // cumulative.
  uint64_t bucket(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  uint64_t count() const;
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const std::vector<double> bounds_;
  std::unique_ptr<std::atomic<uint64_t>[]> counts_;
  std::atomic<double> sum_{0};
};

// `count` bounds: first, first * factor, ...
std::vector<double> ExponentialBounds(double first, double factor, int count);

using MetricLabels = std::map<std::string, std::string>;

// All metrics of one task. Thread-safe. Adding a metric that exists (same name and labels) returns
// the existing handle. A name belongs to one kind of metric: using it for two kinds is a defect and
// ends the process.
class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();

  Counter* AddCounter(std::string_view name, std::string_view help,
                      const MetricLabels& labels = {});
  Gauge* AddGauge(std::string_view name, std::string_view help, const MetricLabels& labels = {});
  Histogram* AddHistogram(std::string_view name, std::string_view help, std::vector<double> bounds,
                          const MetricLabels& labels = {});
  // Adds a metric whose value `read` returns whenever the metrics are read: a counter if its name
  // ends in _total, else a gauge. `read` must be thread-safe and valid as long as the registry.
  void AddCallback(std::string_view name, std::string_view help, std::function<double()> read,
                   const MetricLabels& labels = {});
  // Calls `prepare` whenever the metrics are read, before the callbacks, one reader at a time: what
  // it prepares, callbacks may read without a lock. It may add metrics.
  void AddPreparation(std::function<void()> prepare);

  // Prometheus' text format 0.0.4, sorted by name: the answer to GET /metrics.
  std::string Text() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_METRICS_H_
