// Recurrences: all steps of a sequence in one op. The input x [n, steps, gates units] is the
// product of a layer's input and its kernel, with the bias; the op adds the products of the states.
// `backwards` begins at the last step; a result stays at the step of its input. Two inputs are
// optional: the states before the first step, [n, units] each (none: zeros), and after them a mask
// bool [n, steps]. A state stays as it was where the mask is false.
#include <algorithm>
#include <array>
#include <span>

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

// The state before the first step of a sequence.
ValueType FirstState(const ValueType& sequence, int64_t units) {
  return {sequence.dtype, {sequence.dims[0], {units}}};
}

// Checks that input `at` and those after it have these types, of which the states and the mask are
// optional.
absl::Status CheckRest(const InferContext& context, size_t at, std::vector<ValueType> wanted,
                       std::span<const ValueType> states) {
  const ValueType& first = context.input(0);
  const bool masked = context.inputs.size() > at && context.inputs.back()->dtype == DType::kBool;
  const size_t given = context.inputs.size() - (masked ? 1 : 0);
  if (given > at + wanted.size()) wanted.insert(wanted.end(), states.begin(), states.end());
  if (given != at + wanted.size()) {
    return InvalidArgument("it takes the states before the first step all or none");
  }
  if (masked) wanted.push_back({DType::kBool, {first.dims[0], first.dims[1]}});
  for (size_t i = at; i < context.inputs.size(); ++i) {
    COHORT_RETURN_IF_ERROR(CheckIsOfType(context, i, wanted[i - at]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> InferLstm(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 4));
  const ValueType &x = context.input(0), state = FirstState(x, units);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, Sequence(x, 4 * units)));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {}, std::array{state, state}));
  return Types{Sequence(x, units), Sequence(x, units), x};
}

absl::StatusOr<Types> InferLstmGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 4));
  const ValueType h = Sequence(context.input(0), units), gates = Sequence(h, 4 * units);
  const ValueType state = FirstState(h, units);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, h));
  std::vector<ValueType> wanted = {gates, h};
  // The gradient of the cells.
  if (context.inputs.size() > 4 && context.input(4).dims.size() == 3) wanted.push_back(h);
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, std::move(wanted), std::array{state}));
  return Types{gates, state, state};
}

absl::StatusOr<Types> InferGru(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 3));
  const ValueType& x = context.input(0);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, Sequence(x, 3 * units)));
  COHORT_RETURN_IF_ERROR(
      CheckRest(context, 2, {{x.dtype, {{3 * units}}}}, std::array{FirstState(x, units)}));
  return Types{Sequence(x, units), Sequence(x, 4 * units)};
}

absl::StatusOr<Types> InferGruGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 3));
  const ValueType h = Sequence(context.input(0), units), state = FirstState(h, units);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, h));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {h, Sequence(h, 4 * units)}, std::array{state}));
  return Types{Sequence(h, 3 * units), Sequence(h, 3 * units), state};
}

absl::StatusOr<Types> InferSimpleRnn(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 1));
  const ValueType& x = context.input(0);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, Sequence(x, units)));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {}, std::array{FirstState(x, units)}));
  return Types{x};
}

absl::StatusOr<Types> InferSimpleRnnGrad(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const int64_t units, Units(context, 1));
  const ValueType h = Sequence(context.input(0), units), state = FirstState(h, units);
  COHORT_RETURN_IF_ERROR(CheckIsOfType(context, 0, h));
  COHORT_RETURN_IF_ERROR(CheckRest(context, 2, {h}, std::array{state}));
  return Types{h, state};
}

// [n, steps, width] as [n steps, width].
Expr AsRows(Expr x) {
  const ValueType type = x.type();
  const int64_t rows = type.dims[0].bounded() ? -1 : type.dims[0].size * type.dims[1].size;
  return Reshape(x, {rows, type.dims[2].size});
}

// The optional inputs of a node, which follow `required` others.
struct Optional {
  Optional(GradientContext* c, size_t required) {
    size_t end = c->num_inputs();
    if (end > required && c->input(end - 1).dtype() == DType::kBool) mask = c->input(--end);
    for (size_t i = required; i < end; ++i) states.push_back(c->input(i));
  }

  std::vector<Expr> states;
  Expr mask;
};

Expr ZerosLike(Expr x) { return BroadcastLike(x.builder()->Scalar(0, x.dtype()), x); }

// The gradient of the kernel from that of the product of states and kernel. The states are those of
// h one step earlier, and the given ones or zeros before the first one.
Expr RecurrentKernelGrad(GradientContext* c, Expr h, Expr grad, const Optional& optional) {
  const ValueType type = h.type();
  const int64_t steps = type.dims[1].size, units = type.dims[2].size;
  if (steps == 1 && optional.states.empty()) return ZerosLike(c->input(1));
  const int64_t examples = type.dims[0].bounded() ? -1 : type.dims[0].size;
  std::vector<Expr> states = {optional.states.empty()
                                  ? ZerosLike(Slice(h, 1, 0, 1))
                                  : Reshape(optional.states[0], {examples, 1, units})};
  const bool backwards = BoolAttr(c->node(), "backwards");
  if (steps > 1) states.push_back(Slice(h, 1, backwards ? 1 : 0, steps - 1));
  if (backwards) std::ranges::reverse(states);
  const Expr all = states.size() > 1 ? Concat(states, 1) : states[0];
  return MatMul(AsRows(all), AsRows(grad), true);
}

// Gradients flow through the first `count` outputs only. A silent zero for another one would be
// wrong.
bool CheckUse(GradientContext* c, size_t count, size_t outputs) {
  bool used = false;
  for (size_t i = 0; i < outputs; ++i) {
    if (!c->grad(i).valid()) continue;
    used = true;
    if (i < count) continue;
    c->builder()->Fail(Unimplemented(
        "gradient of output {} of '{}': only its states can be differentiated", i, c->node().op));
    return false;
  }
  return used;
}

void LstmGradient(GradientContext* c) {
  if (!CheckUse(c, 2, 3)) return;
  const Optional optional(c, 2);
  const Expr h = c->output(0);
  std::vector<Expr> inputs = {c->grad(0).valid() ? c->grad(0) : ZerosLike(h), c->input(1),
                              c->output(2), c->output(1)};
  if (c->grad(1).valid()) inputs.push_back(c->grad(1));
  if (!optional.states.empty()) inputs.push_back(optional.states[1]);
  if (optional.mask.valid()) inputs.push_back(optional.mask);
  const auto grads = c->builder()->OpOutputs("lstm_grad", inputs, c->node().attrs);
  if (c->needs(0)) c->Set(0, grads[0]);
  if (c->needs(1)) c->Set(1, RecurrentKernelGrad(c, h, grads[0], optional));
  for (size_t i = 0; i < optional.states.size(); ++i) {
    if (c->needs(2 + i)) c->Set(2 + i, grads[1 + i]);
  }
}

// The gradients of GRU and SimpleRNN, from `values` that are theirs alone.
std::vector<Expr> GradsOfOneState(GradientContext* c, std::string_view op, const Optional& optional,
                                  std::vector<Expr> values) {
  std::vector<Expr> inputs = {c->grad(), c->input(1)};
  inputs.insert(inputs.end(), values.begin(), values.end());
  inputs.insert(inputs.end(), optional.states.begin(), optional.states.end());
  if (optional.mask.valid()) inputs.push_back(optional.mask);
  return c->builder()->OpOutputs(op, inputs, c->node().attrs);
}

void GruGradient(GradientContext* c) {
  if (!CheckUse(c, 1, 2)) return;
  const Optional optional(c, 3);
  const auto grads = GradsOfOneState(c, "gru_grad", optional, {c->output(), c->output(1)});
  if (c->needs(0)) c->Set(0, grads[0]);
  if (c->needs(1)) c->Set(1, RecurrentKernelGrad(c, c->output(), grads[1], optional));
  if (c->needs(2)) c->Set(2, ReduceSum(grads[1], {0, 1}));
  if (!optional.states.empty() && c->needs(3)) c->Set(3, grads[2]);
}

void SimpleRnnGradient(GradientContext* c) {
  const Optional optional(c, 2);
  const auto grads = GradsOfOneState(c, "simple_rnn_grad", optional, {c->output()});
  if (c->needs(0)) c->Set(0, grads[0]);
  if (c->needs(1)) c->Set(1, RecurrentKernelGrad(c, c->output(), grads[0], optional));
  if (!optional.states.empty() && c->needs(2)) c->Set(2, grads[1]);
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
      {"lstm", 2, 5, 3, attrs, InferLstm, LstmGradient, RecurrenceFlops},
      {"lstm_grad", 4, 7, 3, attrs, InferLstmGrad, SecondRecurrenceGradient, RecurrenceFlops},
      {"gru", 3, 5, 2, attrs, InferGru, GruGradient, RecurrenceFlops},
      {"gru_grad", 4, 6, 3, attrs, InferGruGrad, SecondRecurrenceGradient, RecurrenceFlops},
      {"simple_rnn", 2, 4, 1, attrs, InferSimpleRnn, SimpleRnnGradient, RecurrenceFlops},
      {"simple_rnn_grad", 3, 5, 2, attrs, InferSimpleRnnGrad, SecondRecurrenceGradient,
       RecurrenceFlops},
  };
}

}  // namespace cohort::ops
