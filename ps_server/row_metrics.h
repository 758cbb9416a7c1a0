#ifndef COHORT_PS_SERVER_ROW_METRICS_H_
#define COHORT_PS_SERVER_ROW_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/base/metrics.h"

namespace cohort {

namespace v1 {
class RowFigures;
class TaskFigures;
}  // namespace v1

// The figures that a parameter server exports of each variable that steps read by rows. Their
// number is bounded, because that of the variables in v1.TaskFigures is
// (common/row_figures/row_figures.h). Keys are no labels: hot ones come and go. Not thread-safe.
class RowMetrics {
 public:
  // `registry` outlives this.
  explicit RowMetrics(MetricsRegistry* registry) : registry_(registry) {}
  void Set(const v1::TaskFigures& figures);

 private:
  // A counter that follows a number, which begins at 0 again with other tablets.
  class Total {
   public:
    explicit Total(Counter* counter) : counter_(counter) {}
    void Set(uint64_t now);

   private:
    Counter* counter_;
    uint64_t last_ = 0;
  };
  struct OfVariable {
    OfVariable(MetricsRegistry* registry, const std::string& variable);
    void Set(const v1::RowFigures& figures);

    Gauge* rows;
    Gauge* bytes;
    Gauge* hot_share;
    Total pulled, pushed, made, evicted, not_admitted;
  };

  MetricsRegistry* const registry_;
  std::map<std::string, OfVariable> variables_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_ROW_METRICS_H_
