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

// A row of operations for each index.
double FlopsPerIndex(const Program& program, const Node& node) {
  const ValueType& y = program.type(node.outputs[0]);
  return static_cast<double>(CapacityElements(program.type(node.inputs[1]))) *
         static_cast<double>(y.dims[1].size);
}

// The indices, and the weights as input `weights` if there are any: [n, length].
absl::Status CheckBags(const InferContext& context, size_t rows, size_t weights) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, rows));
  COHORT_RETURN_IF_ERROR(CheckRank(context, rows, 2));
  COHORT_RETURN_IF_ERROR(CheckDType(context, 1, DType::kInt64));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 1, 2));
  if (context.inputs.size() <= weights) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, rows, weights));
  if (context.input(weights).dims == context.input(1).dims) return absl::OkStatus();
  return InvalidArgument("the indices are {} and the weights {}: they must have one shape",
                         TypeToString(context.input(1)), TypeToString(context.input(weights)));
}

absl::StatusOr<Types> InferBag(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckBags(context, 0, 2));
  const ValueType& rows = context.input(0);
  return Types{{rows.dtype, {context.input(1).dims[0], rows.dims[1]}}};
}

// The products of each row of a bag with the bag's own row of `bags`: [n, length]. The rows of
// lists of one index are those of the indices, and zeros for none.
Expr ProductsOfBags(Expr rows, Expr index, Expr bags) {
  const Dim n = index.type().dims[0];
  const int64_t length = index.type().dims[1].size, width = rows.type().dims[1].size;
  const auto first = [&n](int64_t each) { return n.bounded() ? -1 : n.size * each; };
  const Expr each = Bag(rows, Reshape(index, {first(length), 1}));
  return ReduceSum(Reshape(each, {first(1), length, width}) * Reshape(bags, {first(1), 1, width}),
                   {2});
}

void BagGradient(GradientContext* c) {
  const Expr weights = c->num_inputs() > 2 ? c->input(2) : Expr();
  if (c->needs(0)) c->Set(0, BagGrad(c->grad(), c->input(1), c->input(0), weights));
  if (weights.valid() && c->needs(2)) {
    c->Set(2, ProductsOfBags(c->input(0), c->input(1), c->grad()));
  }
}

absl::StatusOr<Types> InferBagGrad(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckBags(context, 2, 3));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 2));
  const ValueType bags{context.input(2).dtype,
                       {context.input(1).dims[0], context.input(2).dims[1]}};
  if (context.input(0) == bags) return Types{context.input(2)};
  return InvalidArgument("input 0 is {}, but bags of these rows are {}",
                         TypeToString(context.input(0)), TypeToString(bags));
}

void BagGradGradient(GradientContext* c) {
  const Expr weights = c->num_inputs() > 3 ? c->input(3) : Expr();
  if (c->needs(0)) c->Set(0, Bag(c->grad(), c->input(1), weights));
  if (weights.valid() && c->needs(3)) {
    c->Set(3, ProductsOfBags(c->grad(), c->input(1), c->input(0)));
  }
}

}  // namespace

std::vector<OpSchema> LookupOps() {
  return {
      {"table_row", 1, 1, 1, {{"lists", AttrKind::kBool, false}}, InferTableRow, nullptr, NoFlops},
      {"unique",
       1,
       1,
       2,
       {{"symbol", AttrKind::kInt}, {"padding", AttrKind::kInt, false}},
       InferUnique,
       nullptr,
       NoFlops},
      {"bag", 2, 3, 1, {}, InferBag, BagGradient, FlopsPerIndex},
      {"bag_grad", 3, 4, 1, {}, InferBagGrad, BagGradGradient, FlopsPerIndex},
      {"gather", 2, 2, 1, {}, InferGather, GatherGradient, NoFlops},
      {"gather_grad", 3, 3, 1, {}, InferGatherGrad, GatherGradGradient, FlopsPerInput},
  };
}

}  // namespace cohort::ops
