// Random ops: counter-based, keyed by (seed, closure id, the op's number, element).
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

absl::Status InferDropout(const InferContext& context, std::vector<ValueType>* outputs) {
  const double rate = FloatAttr(context.node, "rate");
  if (!(rate >= 0 && rate < 1)) return InvalidArgument("rate {} does not lie in [0, 1)", rate);
  COHORT_RETURN_IF_ERROR(InferSameFloating(context, outputs));
  outputs->push_back(context.input(0));
  return absl::OkStatus();
}

absl::Status DropoutGradient(GradientContext* c) {
  if (c->grad(0).valid()) c->Set(0, c->grad(0) * c->output(1));
  return absl::OkStatus();
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
