#include "common/model/layers/attention_masks.h"

#include <algorithm>
#include <numeric>

#include "common/graph/expr.h"

namespace cohort {
namespace {

// first, first + 1, ... as [count, 1] or [1, count]: a mask compares two of them, so that a program
// has no table of queries by keys.
Expr Places(ProgramBuilder* builder, Dims dims, int64_t first) {
  Tensor places(DType::kInt64, std::move(dims));
  std::iota(places.mutable_values<int64_t>().begin(), places.mutable_values<int64_t>().end(),
            first);
  return builder->Constant(places);
}

}  // namespace

Expr CausalMask(ProgramBuilder* builder, int64_t queries, int64_t keys) {
  return GreaterEqual(Places(builder, {queries, 1}, 0), Places(builder, {1, keys}, 0));
}

// |query - key| < window
Expr WindowMask(ProgramBuilder* builder, int64_t queries, int64_t keys, int64_t window) {
  const int64_t width = std::min(window, std::max(queries, keys));
  return LogicalAnd(Less(Places(builder, {queries, 1}, 0), Places(builder, {1, keys}, width)),
                    Less(Places(builder, {1, keys}, 0), Places(builder, {queries, 1}, width)));
}

Expr BothMasks(Expr a, Expr b) {
  if (!a.valid() || !b.valid()) return a.valid() ? a : b;
  return LogicalAnd(a, b);
}

}  // namespace cohort
