// Ops that only move elements: reshape, concat, slice, transpose.
#include <algorithm>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 48;

// The product of the static dims of `dims`; -1 only at axis 0. Errors name the first wrong one.
absl::StatusOr<int64_t> StaticElements(std::span<const int64_t> dims) {
  int64_t elements = 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i == 0 && dims[i] == -1) continue;
    if (dims[i] < 1 || elements > kMaxSize / dims[i]) {
      return InvalidArgument("dims {} has a size that is out of range at axis {}",
                             DimsToString(dims), i);
    }
    elements *= dims[i];
  }
  return elements;
}

absl::StatusOr<Types> InferReshape(const InferContext& context) {
  const ValueType& x = context.input(0);
  const auto dims = IntsAttr(context.node, "dims");
  const bool bounded = !x.dims.empty() && x.dims[0].bounded();
  for (size_t i = 1; i < x.dims.size(); ++i) {
    if (x.dims[i].bounded()) {
      return InvalidArgument("only axis 0 may be bounded, not axis {} of {}", i, TypeToString(x));
    }
  }
  if (bounded != (!dims.empty() && dims[0] == -1)) {
    return InvalidArgument("dims must have -1 at axis 0 exactly where axis 0 of {} is bounded",
                           TypeToString(x));
  }
  COHORT_ASSIGN_OR_RETURN(const int64_t elements, StaticElements(dims));
  const int64_t total = CapacityElements(x);
  ValueType y{x.dtype, {}};
  for (int64_t size : dims) y.dims.push_back({size, 0});
  if (bounded) {
    const int symbol = x.dims[0].symbol;
    const int64_t capacity = context.program.symbols[static_cast<size_t>(symbol - 1)].capacity;
    // Each unit of the symbol must fill whole rows, or a count would not be an integer.
    if (total % elements != 0 || (total / elements) % capacity != 0) {
      return InvalidArgument("{} has no whole number of rows of {}", TypeToString(x),
                             DimsToString(dims.subspan(1)));
    }
    y.dims[0] = {total / elements, symbol};
  } else if (total != elements) {
    return InvalidArgument("{} does not have the elements of {}", TypeToString(x),
                           DimsToString(dims));
  }
  return Types{std::move(y)};
}

// The `dims` attribute that reshapes to `type`.
std::vector<int64_t> DimsOf(const ValueType& type) {
  std::vector<int64_t> dims;
  for (const Dim& dim : type.dims) dims.push_back(dim.bounded() ? -1 : dim.size);
  return dims;
}

void ReshapeGradient(GradientContext* c) {
  c->Set(0, Reshape(c->grad(), DimsOf(c->input(0).type())));
}

absl::StatusOr<Types> InferConcat(const InferContext& context) {
  const int64_t axis = IntAttr(context.node, "axis");
  COHORT_RETURN_IF_ERROR(CheckAxis(context, 0, axis));
  const auto at = static_cast<size_t>(axis);
  ValueType y = context.input(0);
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const ValueType& x = context.input(i);
    COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, i));
    COHORT_RETURN_IF_ERROR(CheckRank(context, i, y.dims.size()));
    for (size_t d = 0; d < x.dims.size(); ++d) {
      const bool wrong = d == at ? x.dims[d].bounded() : x.dims[d] != y.dims[d];
      if (wrong) {
        return InvalidArgument("{} and {} cannot be put together along axis {}",
                               TypeToString(context.input(0)), TypeToString(x), axis);
      }
    }
    if (i == 0) continue;
    if (y.dims[at].size > kMaxSize - x.dims[at].size) return InvalidArgument("too large");
    y.dims[at].size += x.dims[at].size;
  }
  return Types{std::move(y)};
}

void ConcatGradient(GradientContext* c) {
  const int64_t axis = IntAttr(c->node(), "axis");
  int64_t begin = 0;
  for (size_t i = 0; i < c->num_inputs(); ++i) {
    const int64_t size = c->input(i).type().dims[static_cast<size_t>(axis)].size;
    if (c->needs(i)) c->Set(i, Slice(c->grad(), axis, begin, size));
    begin += size;
  }
}

absl::StatusOr<Types> InferSlice(const InferContext& context) {
  const int64_t axis = IntAttr(context.node, "axis");
  COHORT_RETURN_IF_ERROR(CheckAxis(context, 0, axis));
  ValueType y = context.input(0);
  Dim& dim = y.dims[static_cast<size_t>(axis)];
  const int64_t begin = IntAttr(context.node, "begin");
  const int64_t size = IntAttr(context.node, "size");
  if (dim.bounded()) return InvalidArgument("axis {} of {} is bounded", axis, TypeToString(y));
  if (begin < 0 || size < 1 || begin > dim.size || size > dim.size - begin) {
    return InvalidArgument("[{}, {} + {}) does not lie in axis {} of {}", begin, begin, size, axis,
                           TypeToString(y));
  }
  dim.size = size;
  return Types{std::move(y)};
}

// Zeros on both sides of the gradient.
void SliceGradient(GradientContext* c) {
  const int64_t axis = IntAttr(c->node(), "axis");
  const int64_t begin = IntAttr(c->node(), "begin");
  const int64_t size = IntAttr(c->node(), "size");
  const int64_t whole = c->input(0).type().dims[static_cast<size_t>(axis)].size;
  std::vector<Expr> parts;
  const Expr zero = c->builder()->Scalar(0, c->grad().dtype());
  const auto zeros = [&](int64_t from, int64_t count) {
    if (count > 0) parts.push_back(BroadcastLike(zero, Slice(c->input(0), axis, from, count)));
  };
  zeros(0, begin);
  parts.push_back(c->grad());
  zeros(begin + size, whole - begin - size);
  c->Set(0, parts.size() == 1 ? parts[0] : Concat(parts, axis));
}

absl::StatusOr<Types> InferTranspose(const InferContext& context) {
  const ValueType& x = context.input(0);
  const auto perm = IntsAttr(context.node, "perm");
  std::vector<bool> seen(x.dims.size(), false);
  ValueType y{x.dtype, {}};
  for (int64_t axis : perm) {
    if (axis < 0 || axis >= static_cast<int64_t>(seen.size()) || seen[static_cast<size_t>(axis)]) {
      break;
    }
    seen[static_cast<size_t>(axis)] = true;
    y.dims.push_back(x.dims[static_cast<size_t>(axis)]);
  }
  if (perm.size() != x.dims.size() || y.dims.size() != x.dims.size()) {
    return InvalidArgument("perm {} is no permutation of the axes of {}", DimsToString(perm),
                           TypeToString(x));
  }
  return Types{std::move(y)};
}

void TransposeGradient(GradientContext* c) {
  const auto perm = IntsAttr(c->node(), "perm");
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  c->Set(0, Transpose(c->grad(), std::move(inverse)));
}

}  // namespace

std::vector<OpSchema> ShapeOps() {
  return {
      {"reshape", 1, 1, 1, {{"dims", AttrKind::kInts}}, InferReshape, ReshapeGradient, NoFlops},
      {"concat", 1, kVariadic, 1, {{"axis", AttrKind::kInt}}, InferConcat, ConcatGradient, NoFlops},
      {"slice",
       1,
       1,
       1,
       {{"axis", AttrKind::kInt}, {"begin", AttrKind::kInt}, {"size", AttrKind::kInt}},
       InferSlice,
       SliceGradient,
       NoFlops},
      {"transpose",
       1,
       1,
       1,
       {{"perm", AttrKind::kInts}},
       InferTranspose,
       TransposeGradient,
       NoFlops},
  };
}

}  // namespace cohort::ops
