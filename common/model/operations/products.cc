// Products of matrices, and cumulative sums and products (keras/src/ops/numpy.py).
#include "common/model/einsum.h"
#include "common/model/operations/operation_list.h"

namespace cohort {
namespace {

absl::StatusOr<std::pair<Expr, Expr>> Both(const LayerContext& context) {
  if (context.inputs.size() == 2) {
    return std::pair(ToFloats(context, context.inputs[0].value),
                     ToFloats(context, context.inputs[1].value));
  }
  return InvalidArgument("it takes two inputs, not {}", context.inputs.size());
}

// "abc": the labels of `count` axes from `first`.
std::string Labels(char first, size_t count) {
  std::string labels;
  for (size_t i = 0; i < count; ++i) labels.push_back(static_cast<char>(first + i));
  return labels;
}

// The sums over the last `count` axes of a and the first ones of b.
MadeExpr TensorDot(Expr a, Expr b, std::vector<int64_t> of_a, std::vector<int64_t> of_b) {
  if (!a.valid() || !b.valid()) return Expr();
  if (of_a.size() != of_b.size() || a.rank() > 12 || b.rank() > 12) {
    return InvalidArgument("axes name {} axes of one input, and {} of the other", of_a.size(),
                           of_b.size());
  }
  std::string left = Labels('a', a.rank()), right = Labels('n', b.rank());
  for (size_t i = 0; i < of_a.size(); ++i) {
    COHORT_ASSIGN_OR_RETURN(const int64_t at_a, AxisOf(of_a[i], a.rank()));
    COHORT_ASSIGN_OR_RETURN(const int64_t at_b, AxisOf(of_b[i], b.rank()));
    right[static_cast<size_t>(at_b)] = left[static_cast<size_t>(at_a)];
  }
  std::string result;
  for (const char label : left) {
    if (right.find(label) == std::string::npos) result.push_back(label);
  }
  for (const char label : right) {
    if (left.find(label) == std::string::npos) result.push_back(label);
  }
  const Expr operands[] = {a, b};
  return Einsum(fmt::format("{},{}->{}", left, right, result), operands);
}

MadeOutput MatMulOf(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const auto both, Both(*context));
  return MatMulOfAnyRank(both.first, both.second);
}

MadeOutput DotOf(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const auto both, Both(*context));
  const auto [a, b] = both;
  if (b.rank() == 1) return TensorDot(a, b, {-1}, {0});
  return TensorDot(a, b, {-1}, {-2});
}

// `axes`: a number, or the axes of x1 and those of x2, as many of each.
MadeOutput TensorDotOf(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const auto both, Both(*context));
  const std::vector<int64_t> axes = context->config.Ints("axes");
  std::vector<int64_t> of_a, of_b;
  if (axes.size() == 1) {
    for (int64_t i = 0; i < axes[0]; ++i) {
      of_a.push_back(i - axes[0]);
      of_b.push_back(i);
    }
  } else if (axes.size() % 2 == 0) {
    const auto middle = axes.begin() + static_cast<int64_t>(axes.size() / 2);
    of_a.assign(axes.begin(), middle);
    of_b.assign(middle, axes.end());
  } else {
    return InvalidArgument("axes must be a number, or as many axes of each input");
  }
  return TensorDot(both.first, both.second, std::move(of_a), std::move(of_b));
}

MadeOutput EinsumOf(LayerContext* context) {
  std::vector<Expr> operands;
  for (const LayerOutput& input : context->inputs) {
    operands.push_back(ToFloats(*context, input.value));
  }
  return Einsum(context->config.String("subscripts"), operands);
}

// As a product with a triangle of ones.
MadeOutput CumulativeSum(LayerContext* context) {
  const Expr x[] = {context->inputs[0].value};
  if (context->config.IsNone("axis")) return InvalidArgument("it needs an axis");
  if (!x[0].valid()) return LayerOutput{};
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context->config.Int("axis"), x[0].rank()));
  const Dim dim = x[0].type().dims[static_cast<size_t>(axis)];
  if (dim.bounded()) return InvalidArgument("it does not sum over the batch");
  std::vector<double> ones;
  for (int64_t i = 0; i < dim.size * dim.size; ++i) {
    ones.push_back(i / dim.size <= i % dim.size ? 1 : 0);
  }
  absl::Status status = absl::OkStatus();
  const Expr sums = Arithmetic(x, [&](std::span<const Expr> values) -> Expr {
    const Expr triangle =
        Reshape(ConstantVector(context->builder, ones, values[0].dtype()), {dim.size, dim.size});
    const std::string labels = Labels('a', values[0].rank());
    std::string result = labels;
    result[static_cast<size_t>(axis)] = 'z';
    const Expr operands[] = {values[0], triangle};
    auto made = Einsum(fmt::format("{},{}z->{}", labels, labels[static_cast<size_t>(axis)], result),
                       operands);
    status = made.status();
    return made.ok() ? *made : Expr();
  });
  COHORT_RETURN_IF_ERROR(status);
  return sums;
}

// By products over 1, 2, 4, ... elements, so a 0 needs no case.
MadeOutput CumulativeProduct(LayerContext* context) {
  const Expr x[] = {context->inputs[0].value};
  if (context->config.IsNone("axis")) return InvalidArgument("it needs an axis");
  if (!x[0].valid()) return LayerOutput{};
  COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context->config.Int("axis"), x[0].rank()));
  const Dim dim = x[0].type().dims[static_cast<size_t>(axis)];
  if (dim.bounded()) return InvalidArgument("it does not multiply the records of a batch");
  return Arithmetic(x, [&](std::span<const Expr> values) {
    Expr y = values[0];
    for (int64_t n = 1; n < dim.size; n *= 2) {
      const Expr before = Slice(y, axis, 0, dim.size - n);
      const Expr parts[] = {Slice(y, axis, 0, n), Slice(y, axis, n, dim.size - n) * before};
      y = Concat(parts, axis);
    }
    return y;
  });
}

}  // namespace

std::vector<LayerClass> ProductOperations() {
  return {
      Operation("matmul", "Products of the matrices in the last two axes.", {"x1", "x2"}, {},
                MatMulOf),
      Operation("dot", "The sums over the last axis of x1 and the last but one of x2.",
                {"x1", "x2"}, {}, DotOf),
      Operation("tensordot", "The sums over axes of x1 and axes of x2.", {"x1", "x2"},
                {Ints("axes", "How many: the last of x1, the first of x2; or a list of each.")
                     .Default(std::vector<int64_t>{2})
                     .Nested()},
                TensorDotOf),
      OperationOfAll("einsum", "Einstein's summation over the axes of its inputs.",
                     {String("subscripts", "As \"bij,bjk->bik\".")}, EinsumOf),
      Operation("cumsum", "The sums of the elements up to each place.", {"x"},
                {Int("axis", "The axis.").Optional(), Planned("dtype")}, CumulativeSum),
      Operation("cumprod", "The products of the elements up to each place.", {"x"},
                {Int("axis", "The axis.").Optional(), Planned("dtype")}, CumulativeProduct),
  };
}

}  // namespace cohort
