// A step of another program: values in, losses, metrics and gradients out.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

// Elements of the variables, which follow the columns.
int64_t VariableElements(const InferContext& context, size_t columns) {
  int64_t total = 0;
  for (size_t i = columns; i < context.inputs.size(); ++i) {
    total += CapacityElements(context.input(i));
  }
  return total;
}

absl::StatusOr<Types> InferExternal(const InferContext& context) {
  const int64_t columns = IntAttr(context.node, "columns");
  const int64_t results = IntAttr(context.node, "results");
  const auto inputs = static_cast<int64_t>(context.inputs.size());
  if (columns < 1 || columns >= inputs) {
    return InvalidArgument("it needs columns and variables: {} of its {} inputs are columns",
                           columns, inputs);
  }
  constexpr int64_t kMostResults = 1 << 16;
  if (results < 1 || results > kMostResults) {
    return InvalidArgument("it has 1 to {} results, not {}", kMostResults, results);
  }
  const auto first = static_cast<size_t>(columns);
  for (size_t i = 0; i < first; ++i) {
    const ValueType& column = context.input(i);
    if (column.dims.empty() || column.dims[0] != context.input(0).dims[0]) {
      return InvalidArgument("input {} is {}: columns have the same records", i,
                             TypeToString(column));
    }
  }
  for (size_t i = first; i < context.inputs.size(); ++i) {
    COHORT_RETURN_IF_ERROR(CheckFloating(context, i));
    COHORT_RETURN_IF_ERROR(CheckSameDType(context, first, i));
    for (const Dim& dim : context.input(i).dims) {
      if (dim.bounded()) return InvalidArgument("input {} is no variable", i);
    }
  }
  const int64_t total = VariableElements(context, first);
  if (total < 1 || total > (int64_t{1} << 40)) {
    return InvalidArgument("its variables have {} elements", total);
  }
  const DType dtype = context.input(first).dtype;
  const bool training = BoolAttr(context.node, "training");
  return Types{{dtype, {context.input(0).dims[0], {results, 0}}},
               {dtype, {{training ? total : 1, 0}}}};
}

// The program returns gradients of the mean loss. The rows of result 0 have it each, so the sum of
// their gradients is the factor.
void ExternalGradient(GradientContext* c) {
  if (!c->grad(0).valid() || !BoolAttr(c->node(), "training")) return;
  const Expr factor = ReduceSum(c->grad(0));
  int64_t offset = 0;
  for (auto i = static_cast<size_t>(IntAttr(c->node(), "columns")); i < c->num_inputs(); ++i) {
    std::vector<int64_t> dims;
    for (const Dim& dim : c->input(i).type().dims) dims.push_back(dim.size);
    const int64_t size = CapacityElements(c->input(i).type());
    if (c->needs(i)) {
      c->Set(i, Reshape(Slice(c->output(1), 0, offset, size) * factor, std::move(dims)));
    }
    offset += size;
  }
}

}  // namespace

std::vector<OpSchema> ExternalOps() {
  return {{"external",
           2,
           kVariadic,
           2,
           {{"columns", AttrKind::kInt},
            {"results", AttrKind::kInt},
            {"names", AttrKind::kString},
            {"training", AttrKind::kBool},
            {"seed", AttrKind::kInt}},
           InferExternal,
           ExternalGradient}};
}

}  // namespace cohort::ops
