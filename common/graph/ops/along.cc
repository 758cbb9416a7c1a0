// Ops of places along the last axis: the order of its elements, and elements by places.
#include <algorithm>

#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::StatusOr<Types> InferArgsort(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, 0));
  const ValueType& x = context.input(0);
  if (x.dtype != DType::kInt64) COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  return Types{{DType::kInt64, x.dims}};
}

// That inputs `a` and `b` have the same axes but the last.
absl::Status CheckSameRows(const InferContext& context, size_t a, size_t b) {
  const auto &x = context.input(a).dims, &y = context.input(b).dims;
  if (x.size() == y.size() && std::equal(x.begin(), x.end() - 1, y.begin())) {
    return absl::OkStatus();
  }
  return InvalidArgument("inputs {} and {} must have the same axes but the last: {} and {}", a, b,
                         TypeToString(context.input(a)), TypeToString(context.input(b)));
}

absl::StatusOr<Types> InferGatherAlong(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, 0));
  COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, 1));
  COHORT_RETURN_IF_ERROR(CheckDType(context, 1, DType::kInt64));
  COHORT_RETURN_IF_ERROR(CheckSameRows(context, 0, 1));
  return Types{{context.input(0).dtype, context.input(1).dims}};
}

void GatherAlongGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, GatherAlongGrad(c->grad(), c->input(1), c->input(0)));
}

absl::StatusOr<Types> InferGatherAlongGrad(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckDType(context, 1, DType::kInt64));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 2));
  for (size_t i = 0; i < 3; ++i) COHORT_RETURN_IF_ERROR(CheckLastAxisStatic(context, i));
  COHORT_RETURN_IF_ERROR(CheckSameRows(context, 1, 2));
  if (context.input(0).dims == context.input(1).dims) return Types{context.input(2)};
  return InvalidArgument("inputs 0 and 1 must have the same axes: {} and {}",
                         TypeToString(context.input(0)), TypeToString(context.input(1)));
}

void GatherAlongGradGradient(GradientContext* c) {
  if (c->needs(0)) c->Set(0, GatherAlong(c->grad(), c->input(1)));
}

}  // namespace

std::vector<OpSchema> AlongOps() {
  return {
      {"argsort", 1, 1, 1, {{"descending", AttrKind::kBool, false}}, InferArgsort},
      {"gather_along", 2, 2, 1, {}, InferGatherAlong, GatherAlongGradient, NoFlops},
      {"gather_along_grad",
       3,
       3,
       1,
       {},
       InferGatherAlongGrad,
       GatherAlongGradGradient,
       FlopsPerInput},
  };
}

}  // namespace cohort::ops
