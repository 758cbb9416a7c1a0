#ifndef COHORT_COMMON_GRAPH_OP_COST_H_
#define COHORT_COMMON_GRAPH_OP_COST_H_

#include "common/graph/program.h"

namespace cohort {

// What one run of a node costs at full capacity.
struct OpCost {
  double flops = 0;  // floating-point operations; an estimate for all ops but products
  double bytes = 0;  // inputs and outputs, each counted once
};

OpCost CostOf(const Program& program, const Node& node);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_OP_COST_H_
