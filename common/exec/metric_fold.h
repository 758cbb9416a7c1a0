#ifndef COHORT_COMMON_EXEC_METRIC_FOLD_H_
#define COHORT_COMMON_EXEC_METRIC_FOLD_H_

#include <vector>

#include "common/exec/executable.h"
#include "common/metrics/metric_proto.h"
#include "common/metrics/metric_state.h"

namespace cohort {

// Folds what the steps of one program add to its metrics.
class MetricFold {
 public:
  // Folds what the last Run has computed. Allocates in the first step only.
  void Add(const Executable& executable);
  // The states of the program's metrics; none before the first Add.
  std::vector<MetricState> States(const Program& program) const;
  // The same for a message; a mean costs one field each.
  void ToProto(const Program& program, MetricValues* out) const;
  void Clear() { values_.clear(); }

 private:
  std::vector<double> values_;  // as Executable::metric_values
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_METRIC_FOLD_H_
