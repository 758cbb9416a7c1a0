#ifndef COHORT_COMMON_GRAPH_FUSE_H_
#define COHORT_COMMON_GRAPH_FUSE_H_

#include "common/graph/program.h"

namespace cohort {

// How an input of an elementwise node is broadcast to its output.
enum class Operand : uint8_t {
  kFull,    // the dims of the output
  kRow,     // the last axis of the output, one for all rows: a bias
  kScalar,  // one element
  kOther,
};
Operand OperandOf(const ValueType& input, const ValueType& output);

// The most nodes in one: it splits longer chains, whose values would not fit into the cache.
inline constexpr size_t kMaxFused = 12;

// Replaces chains of elementwise nodes by one node "fused": a value between them that nothing else
// uses stays in the cache, and never goes to memory. Such a node has one output, whose dims all of
// its nodes have; each of its inputs is full, a row or a scalar. Results do not change by a bit.
// `program` is valid.
Program FuseElementwise(Program program);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_FUSE_H_
