#ifndef COHORT_COMMON_GRAPH_VISIBLE_VALUES_H_
#define COHORT_COMMON_GRAPH_VISIBLE_VALUES_H_

#include "common/graph/program.h"

namespace cohort {

// Calls visit(value) for each use of a value outside the program's nodes: what it pushes, its
// metrics, its outputs and the weight of its loss. A value that has several such uses is visited as
// often.
template <typename Visit>
void ForEachVisible(const Program& program, const Visit& visit) {
  const auto use = [&visit](ValueId v) {
    if (v != kNoValue) visit(v);
  };
  for (const Push& push : program.pushes) {
    use(push.value);
    use(push.keys);
  }
  for (const MetricPartial& metric : program.metrics) {
    for (const MetricAccumulator& a : metric.accumulators) use(a.value);
  }
  for (const Output& output : program.outputs) use(output.value);
  use(program.weight);
}

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_VISIBLE_VALUES_H_
