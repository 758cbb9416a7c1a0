#include "common/model/layers/attention_masks.h"

#include <cstdlib>

#include "common/graph/expr.h"
#include "common/model/layers/masks.h"

namespace cohort {
namespace {

Expr MaskWhere(ProgramBuilder* builder, int64_t queries, int64_t keys,
               bool (*keeps)(int64_t query, int64_t key, int64_t window), int64_t window) {
  Tensor kept = Tensor::Zeros(DType::kInt64, {queries, keys});
  for (int64_t i = 0; i < queries * keys; ++i) {
    kept.mutable_values<int64_t>()[static_cast<size_t>(i)] =
        keeps(i / keys, i % keys, window) ? 1 : 0;
  }
  return AsMask(builder->Constant(kept));
}

}  // namespace

Expr CausalMask(ProgramBuilder* builder, int64_t queries, int64_t keys) {
  return MaskWhere(
      builder, queries, keys, [](int64_t query, int64_t key, int64_t) { return query >= key; }, 0);
}

Expr WindowMask(ProgramBuilder* builder, int64_t queries, int64_t keys, int64_t window) {
  return MaskWhere(
      builder, queries, keys,
      [](int64_t query, int64_t key, int64_t size) { return std::abs(query - key) < size; },
      window);
}

Expr BothMasks(Expr a, Expr b) {
  if (!a.valid() || !b.valid()) return a.valid() ? a : b;
  return LogicalAnd(a, b);
}

}  // namespace cohort
