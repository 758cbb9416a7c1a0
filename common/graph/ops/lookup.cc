// Rows by key: deduplicating keys, gathering rows, summing their gradients.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

// Its symbol must have room for every id being different from all others.
absl::StatusOr<Types> InferUnique(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kInt64));
  const int64_t symbol = IntAttr(context.node, "symbol");
  const auto& symbols = context.program.symbols;
  if (symbol < 1 || symbol > static_cast<int64_t>(symbols.size())) {
    return InvalidArgument("there is no symbol {} (there are {})", symbol, symbols.size());
  }
  const int64_t capacity = symbols[static_cast<size_t>(symbol - 1)].capacity;
  const int64_t elements = CapacityElements(context.input(0));
  if (capacity != elements) {
    return InvalidArgument("symbol {} has a capacity of {}, but there may be {} keys", symbol,
                           capacity, elements);
  }
  return Types{{DType::kInt64, {{capacity, static_cast<int>(symbol)}}}, context.input(0)};
}

absl::StatusOr<Types> InferTableRow(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kInt64));
  return Types{context.input(0)};
}

absl::StatusOr<Types> InferGather(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckDType(context, 1, DType::kInt64));
  const ValueType& rows = context.input(0);
  if (rows.dims.empty()) return InvalidArgument("input 0 is a scalar and has no rows");
  ValueType y{rows.dtype, context.input(1).dims};
  y.dims.insert(y.dims.end(), rows.dims.begin() + 1, rows.dims.end());
  return Types{std::move(y)};
}

void GatherGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, GatherGrad(c->grad(), c->input(1), c->input(0)));
}

absl::StatusOr<Types> InferGatherGrad(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckDType(context, 1, DType::kInt64));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 2));
  const ValueType& rows = context.input(2);
  if (rows.dims.empty()) return InvalidArgument("input 2 is a scalar and has no rows");
  std::vector<Dim> expected = context.input(1).dims;
  expected.insert(expected.end(), rows.dims.begin() + 1, rows.dims.end());
  if (context.input(0).dims != expected) {
    return InvalidArgument("input 0 is {}, but gathering these rows makes {}",
                           TypeToString(context.input(0)), TypeToString({rows.dtype, expected}));
  }
  return Types{rows};
}

void GatherGradGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, Gather(c->grad(), c->input(1)));
}

}  // namespace

std::vector<OpSchema> LookupOps() {
  return {
      {"table_row", 1, 1, 1, {}, InferTableRow, nullptr, NoFlops},
      {"unique", 1, 1, 2, {{"symbol", AttrKind::kInt}}, InferUnique, nullptr, NoFlops},
      {"gather", 2, 2, 1, {}, InferGather, GatherGradient, NoFlops},
      {"gather_grad", 3, 3, 1, {}, InferGatherGrad, GatherGradGradient, FlopsPerInput},
  };
}

}  // namespace cohort::ops
