#ifndef COHORT_COMMON_GRAPH_GRAPH_TEST_UTIL_H_
#define COHORT_COMMON_GRAPH_GRAPH_TEST_UTIL_H_

#include <algorithm>
#include <string_view>

#include "common/graph/program.h"

namespace cohort {

inline constexpr DType kF = DType::kFloat32;

// How many nodes of a program are this operation.
inline int CountOps(const Program& program, std::string_view op) {
  return static_cast<int>(std::count_if(program.nodes.begin(), program.nodes.end(),
                                        [op](const Node& node) { return node.op == op; }));
}

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_GRAPH_TEST_UTIL_H_
