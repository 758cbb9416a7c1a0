// Random ops: counter-based, keyed by (seed, closure id, the op's number, element).
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::StatusOr<Types> InferDropout(const InferContext& context) {
  const double rate = FloatAttr(context.node, "rate");
  if (!(rate >= 0 && rate < 1)) return InvalidArgument("rate {} does not lie in [0, 1)", rate);
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  return Types{context.input(0), context.input(0)};
}

void DropoutGradient(GradientContext* c) {
  if (c->grad(0).valid()) c->Set(0, c->grad(0) * c->output(1));
}

}  // namespace

std::vector<OpSchema> RandomOps() {
  return {
      {"dropout",
       1,
       1,
       2,
       {{"rate", AttrKind::kFloat}, {"seed", AttrKind::kInt}, {"number", AttrKind::kInt}},
       InferDropout,
       DropoutGradient},
      {"random_normal",
       1,
       1,
       1,
       {{"seed", AttrKind::kInt}, {"number", AttrKind::kInt}},
       InferSameFloating},
  };
}

}  // namespace cohort::ops
