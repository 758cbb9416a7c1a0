// Recurrences: all steps of a sequence in one op. The input x [n, steps, gates units] is the
// product of a layer's input and its kernel, with the bias; the op adds the products of the states.
// The first state is 0. `backwards` begins at the last step; a result stays at the step of its
// input. A state stays as it was if the optional mask bool [n, steps] is false.
#include "common/graph/autodiff.h"
#include "common/graph/expr.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

ValueType Sequence(const ValueType& like, int64_t width) {
  return {like.dtype, {like.dims[0], like.dims[1], {width}}};
}

absl::Status CheckIsOfType(const InferContext& context, size_t input, const ValueType& want) {
  if (context.input(input) == want) return absl::OkStatus();
  return InvalidArgument("input {} must be {}, not {}", input, TypeToString(want),
                         TypeToString(context.input(input)));
}

// Checks the kernel, input 1, which is [units, gates units], and that input 0 is a sequence.
// Returns the units.
absl::StatusOr<int64_t> Units(const InferContext& context, int64_t gates) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  COHORT_RETURN_IF_ERROR(CheckSameDType(context, 0, 1));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 0, 3));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 1, 2));
  const auto& dims = context.input(1).dims;
  const int64_t units = dims[0].size;
  if (dims[0].bounded() || dims[1].bounded() || units < 1 || dims[1].size != gates * units) {
    return InvalidArgument("input 1 must be a kernel [units, {} units], not {}", gates,
                           TypeToString(context.input(1)));
  }
  if (context.input(0).dims[1].bounded() || context.input(0).dims[1].size < 1) {
    return InvalidArgument("input 0 must have one static step or more, not {}",
                           TypeToString(context.input(0)));
  }
  return units;
}

// That input `at` and those after it, of which the mask is optional, have these types.
absl::Status CheckRest(const InferContext& context, size_t at, std::vector<ValueType> wanted) {
  const ValueType& first = context.input(0);
  wanted.push_back({DType::kBool, {first.dims[0], first.dims[1]}});
  for (size_t i = at; i < context.inputs.size(); ++i) {
    COHORT_RETURN_IF_ERROR(CheckIsOfType(context, i, wanted[i - at]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferLstm(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 4));
  const ValueType& x = context.input(0);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, Sequence(x, 4 * units)));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {}));
  return Types{Sequence(x, units), Sequence(x, units), x};
}

absl::StatusOr<Types> InferLstmGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 4));
  const ValueType h = Sequence(context.input(0), units), gates = Sequence(h, 4 * units);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, h));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {gates, h}));
  return Types{gates};
}

absl::StatusOr<Types> InferGru(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 3));
  const ValueType& x = context.input(0);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, Sequence(x, 3 * units)));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {{x.dtype, {{3 * units}}}}));
  return Types{Sequence(x, units), Sequence(x, 4 * units)};
}

absl::StatusOr<Types> InferGruGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 3));
  const ValueType h = Sequence(context.input(0), units);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, h));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {h, Sequence(h, 4 * units)}));
  return Types{Sequence(h, 3 * units), Sequence(h, 3 * units)};
}

absl::StatusOr<Types> InferSimpleRnn(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 1));
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, Sequence(context.input(0), units)));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {}));
  return Types{context.input(0)};
}

absl::StatusOr<Types> InferSimpleRnnGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 1));
  const ValueType h = Sequence(context.input(0), units);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, h));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {h}));
  return Types{h};
}

// [n, steps, width] as [n steps, width].
Expr AsRows(Expr x) {
  const ValueType type = x.type();
  const int64_t rows = type.dims[0].bounded() ? -1 : type.dims[0].size * type.dims[1].size;
  return Reshape(x, {rows, type.dims[2].size});
}

// The gradient of the kernel from that of the product of states and kernel. The states are those of
// h one step earlier, and zeros before the first one.
Expr RecurrentKernelGrad(GradientContext* c, Expr h, Expr grad) {
  const int64_t steps = h.type().dims[1].size;
  const Expr zero = c->builder()->Scalar(0, h.dtype());
  if (steps == 1) return BroadcastLike(zero, c->input(1));
  const Expr zeros = BroadcastLike(zero, Slice(h, 1, 0, 1));
  const bool backwards = BoolAttr(c->node(), "backwards");
  const Expr states = backwards ? Concat(std::vector<Expr>{Slice(h, 1, 1, steps - 1), zeros}, 1)
                                : Concat(std::vector<Expr>{zeros, Slice(h, 1, 0, steps - 1)}, 1);
  return MatMul(AsRows(states), AsRows(grad), true);
}

// `inputs` and the mask, if the node has one as its input `at`.
std::vector<Expr> WithMask(GradientContext* c, std::vector<Expr> inputs, size_t at) {
  if (c->num_inputs() > at) inputs.push_back(c->input(at));
  return inputs;
}

// Gradients flow through output 0 only. A silent zero for another one would be wrong.
bool CheckUse(GradientContext* c, size_t outputs) {
  for (size_t i = 1; i < outputs; ++i) {
    if (!c->grad(i).valid()) continue;
    c->builder()->Fail(Unimplemented(
        "gradient of output {} of '{}': only its output 0 can be differentiated", i, c->node().op));
    return false;
  }
  return c->grad().valid();
}

void LstmGradient(GradientContext* c) {
  if (!CheckUse(c, 3)) return;
  const Expr dx = c->builder()->Op(
      "lstm_grad", WithMask(c, {c->grad(), c->input(1), c->output(2), c->output(1)}, 2),
      c->node().attrs);
  if (c->needs(0)) c->Set(0, dx);
  if (c->needs(1)) c->Set(1, RecurrentKernelGrad(c, c->output(), dx));
}

void GruGradient(GradientContext* c) {
  if (!CheckUse(c, 2)) return;
  const auto grads = c->builder()->OpOutputs(
      "gru_grad", WithMask(c, {c->grad(), c->input(1), c->output(), c->output(1)}, 3),
      c->node().attrs);
  if (c->needs(0)) c->Set(0, grads[0]);
  if (c->needs(1)) c->Set(1, RecurrentKernelGrad(c, c->output(), grads[1]));
  if (c->needs(2)) c->Set(2, ReduceSum(grads[1], {0, 1}));
}

void SimpleRnnGradient(GradientContext* c) {
  const Expr dx = c->builder()->Op(
      "simple_rnn_grad", WithMask(c, {c->grad(), c->input(1), c->output()}, 2), c->node().attrs);
  if (c->needs(0)) c->Set(0, dx);
  if (c->needs(1)) c->Set(1, RecurrentKernelGrad(c, c->output(), dx));
}

// Programs of this project differentiate once.
void SecondRecurrenceGradient(GradientContext* c) {
  c->builder()->Fail(
      Unimplemented("gradient of '{}': a recurrence cannot be differentiated twice", c->node().op));
}

// Each step multiplies each state by the kernel.
double RecurrenceFlops(const Program& program, const Node& node) {
  const auto& dims = program.type(node.inputs[0]).dims;
  return 2 * static_cast<double>(dims[0].size) * static_cast<double>(dims[1].size) *
         static_cast<double>(CapacityElements(program.type(node.inputs[1])));
}

}  // namespace

std::vector<OpSchema> RecurrenceOps() {
  const std::vector<AttrSchema> attrs = {{"backwards", AttrKind::kBool, false}};
  return {
      {"lstm", 2, 3, 3, attrs, InferLstm, LstmGradient, RecurrenceFlops},
      {"lstm_grad", 4, 5, 1, attrs, InferLstmGrad, SecondRecurrenceGradient, RecurrenceFlops},
      {"gru", 3, 4, 2, attrs, InferGru, GruGradient, RecurrenceFlops},
      {"gru_grad", 4, 5, 2, attrs, InferGruGrad, SecondRecurrenceGradient, RecurrenceFlops},
      {"simple_rnn", 2, 3, 1, attrs, InferSimpleRnn, SimpleRnnGradient, RecurrenceFlops},
      {"simple_rnn_grad", 3, 4, 1, attrs, InferSimpleRnnGrad, SecondRecurrenceGradient,
       RecurrenceFlops},
  };
}

}  // namespace cohort::ops
