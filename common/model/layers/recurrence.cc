// Runs cells through sequences.
#include "common/model/layers/recurrence.h"

#include <algorithm>
#include <numeric>

#include "common/model/layers/axes.h"
#include "common/model/layers/masks.h"

namespace cohort {

ClassRegistry<RecurrentClass>& RecurrentLayers() {
  static auto& layers =
      *new ClassRegistry<RecurrentClass>("recurrent layer", SchemaSet::Spelling::kExact, "",
                                         {ConvLstmClass(1), ConvLstmClass(2), ConvLstmClass(3),
                                          GruClass(), LstmClass(), RnnClass(), SimpleRnnClass()});
  return layers;
}

const SchemaSet& RecurrentLayerSchemas() { return RecurrentLayers(); }

std::vector<Argument> WithRecurrentArguments(std::vector<Argument> own) {
  for (Argument& argument : std::vector<Argument>{
           Bool("return_sequences", "True: the outputs of all steps, not only the last one.")
               .Default(false),
           Bool("return_state", "True: the last states are further outputs, which ops.part gives.")
               .Default(false),
           Bool("go_backwards", "True: from the last step to the first.").Default(false),
           Bool("stateful", "Only false: no state outlives a batch.").Default(false),
           Bool("unroll", "Has no effect: it changes no number.").Default(false),
           Bool("zero_output_for_mask",
                "True: the output of a masked step is 0, not that of the step before.")
               .Default(false),
           Planned(Bool("time_major", "").Default(false)),
           Planned(String("use_cudnn", "").Default("auto"))}) {
    own.push_back(std::move(argument));
  }
  return own;
}

absl::StatusOr<RecurrentRun> RunOf(const Config& config) {
  if (config.Bool("stateful")) {
    return Unimplemented(
        "stateful: true is not supported: the batches of a job run on several workers in any "
        "order, "
        "so no batch continues the state of another one");
  }
  return RecurrentRun{.backwards = config.Bool("go_backwards"),
                      .all_steps = config.Bool("return_sequences"),
                      .zero_where_masked = config.Bool("zero_output_for_mask"),
                      .returns_states = config.Bool("return_state")};
}

namespace {

// x [batch, steps, ...] as [batch, ...], if it has one step.
Expr WithoutSteps(Expr x) {
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  dims.erase(dims.begin() + 1);
  return Reshape(x, std::move(dims));
}

// [batch, ...] as one step.
Expr AsStep(Expr x) {
  if (!x.valid()) return x;
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  dims.insert(dims.begin() + 1, 1);
  return Reshape(x, std::move(dims));
}

// Step i of [batch, steps, ...], without the axis of steps.
Expr StepAt(Expr x, int64_t i) { return x.valid() ? WithoutSteps(Slice(x, 1, i, 1)) : x; }

// The steps of x by halves: the gradient of a slice is as large as what it is a part of.
void SplitSteps(Expr x, std::vector<Expr>* steps) {
  if (!x.valid()) return;
  const int64_t count = x.type().dims[1].size, half = count / 2;
  if (count == 1) {
    steps->push_back(WithoutSteps(x));
    return;
  }
  SplitSteps(Slice(x, 1, 0, half), steps);
  SplitSteps(Slice(x, 1, half, count - half), steps);
}

// Zeros of this shape for each record of x [batch, ...].
Expr ZeroState(Expr x, Dims shape) {
  Expr one = x;
  for (size_t axis = 1; axis < x.rank(); ++axis) {
    one = Slice(one, static_cast<int64_t>(axis), 0, 1);
  }
  std::vector<int64_t> dims(shape.size() + 1, 1);
  dims[0] = ReshapeDims(x.type().dims)[0];
  const Expr zero = BroadcastLike(x.builder()->Scalar(0, x.dtype()), Reshape(one, dims));
  return zero + x.builder()->Constant(Tensor::Zeros(x.dtype(), std::move(shape)));
}

// Step by step. `mask` [batch, steps] may be no value, and `states` empty.
absl::StatusOr<RecurrentResult> Unroll(Cell* cell, Expr projected, Expr mask,
                                       std::vector<Expr> states, const RecurrentRun& run) {
  std::vector<Expr> inputs;
  SplitSteps(projected, &inputs);
  if (inputs.empty() || !inputs[0].valid()) return RecurrentResult{};
  std::vector<Expr> outputs(inputs.size());
  if (states.empty()) {
    for (const Dims& shape : cell->state_shapes()) states.push_back(ZeroState(inputs[0], shape));
  }
  const Expr zero = ZeroState(inputs[0], cell->output_shape());
  Expr last = zero;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t at = run.backwards ? inputs.size() - 1 - i : i;
    std::vector<Expr> next = states;
    COHORT_ASSIGN_OR_RETURN(Expr output, cell->Step(inputs[at], next));
    if (mask.valid()) {
      const Expr counts = Slice(mask, 1, static_cast<int64_t>(at), 1);
      const auto choose = [&](Expr a, Expr b) {
        return a.valid() && b.valid() ? Select(MaskOver(counts, a.rank()), a, b) : a;
      };
      for (size_t s = 0; s < states.size(); ++s) next[s] = choose(next[s], states[s]);
      output = choose(output, run.zero_where_masked ? zero : last);
    }
    states = std::move(next);
    last = output;
    outputs[at] = AsStep(output);
  }
  return RecurrentResult{run.all_steps ? Concat(outputs, 1) : last, std::move(states)};
}

// y [batch, steps, size], with zeros at the steps before the first one that counts.
Expr ZerosBeforeFirst(Expr y, Expr mask, bool backwards) {
  const int64_t steps = y.type().dims[1].size;
  Tensor earlier = Tensor::Zeros(DType::kFloat64, {steps, steps});
  for (int64_t from = 0; from < steps; ++from) {
    for (int64_t to = 0; to < steps; ++to) {
      if (backwards ? from < to : from > to) continue;
      earlier.mutable_values<double>()[static_cast<size_t>(from * steps + to)] = 1;
    }
  }
  const Expr counts =
      MatMul(Cast(mask, y.dtype()), Cast(y.builder()->Constant(earlier), y.dtype()));
  return Select(Reshape(NotEqual(counts, 0), {-1, steps, 1}), y, y.builder()->Scalar(0, y.dtype()));
}

// By the op of the cell.
absl::StatusOr<RecurrentResult> RunOp(Cell* cell, Expr projected, Expr mask,
                                      const std::vector<Expr>& states, const RecurrentRun& run) {
  COHORT_ASSIGN_OR_RETURN(
      CellSteps all,
      cell->AllSteps(projected, {.mask = mask, .backwards = run.backwards, .states = states}));
  if (!all.y.valid()) return RecurrentResult{};
  const int64_t steps = all.y.type().dims[1].size, last = run.backwards ? 0 : steps - 1;
  RecurrentResult result;
  if (run.returns_states) {
    for (const Expr& state : all.states) result.states.push_back(StepAt(state, last));
  }
  // Outputs of masked steps are those of the step before, which is no state before the first one.
  if (mask.valid() && !states.empty()) all.y = ZerosBeforeFirst(all.y, mask, run.backwards);
  result.y = run.all_steps ? all.y : StepAt(all.y, last);
  if (!mask.valid() || !run.zero_where_masked) return result;
  const Expr counts = run.all_steps ? Reshape(mask, {-1, steps, 1}) : Slice(mask, 1, last, 1);
  result.y = Select(counts, result.y, result.y.builder()->Scalar(0, result.y.dtype()));
  return result;
}

// The states before the first step, which are the inputs after the first one.
absl::StatusOr<std::vector<Expr>> FirstStates(const LayerContext& context, const Cell& cell) {
  std::vector<Expr> states;
  if (context.inputs.size() == 1) return states;
  const std::vector<Dims> shapes = cell.state_shapes();
  if (context.inputs.size() != 1 + shapes.size()) {
    return InvalidArgument("initial_state must be {} tensors, one for each state, and is {}",
                           shapes.size(), context.inputs.size() - 1);
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    const Expr state = states.emplace_back(context.FloatInput(1 + i));
    ValueType wanted{context.floatx, {context.inputs[0].value.type().dims[0]}};
    for (const int64_t size : shapes[i]) wanted.dims.push_back({size});
    if (state.type() == wanted) continue;
    return InvalidArgument("initial_state {} must be {}, and is {}", i, TypeToString(wanted),
                           TypeToString(state.type()));
  }
  return states;
}

}  // namespace

absl::StatusOr<RecurrentResult> RunCell(const LayerContext& context,
                                        const RecurrentClass& recurrent, const RecurrentRun& run) {
  const Expr x = context.FloatInput(0), mask = run.has_mask ? context.inputs[0].mask : Expr();
  COHORT_RETURN_IF_ERROR(CheckAxes(
      x.type(), recurrent.axes,
      recurrent.axes == 3 ? "[batch, steps, features]" : "[batch, steps, places..., channels]"));
  if (mask.valid() && mask.rank() != 2) {
    return InvalidArgument("the mask of its input must be [batch, steps], and is {}",
                           TypeToString(mask.type()));
  }
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<Cell> cell,
                          recurrent.make_cell(context, x.type().dims.back().size));
  COHORT_ASSIGN_OR_RETURN(const Expr projected, cell->Project(x));
  if (!projected.valid()) return RecurrentResult{};
  COHORT_ASSIGN_OR_RETURN(const std::vector<Expr> states, FirstStates(context, *cell));
  return cell->has_op() ? RunOp(cell.get(), projected, mask, states, run)
                        : Unroll(cell.get(), projected, mask, states, run);
}

Expr FlipSteps(Expr x) {
  if (!x.valid() || x.type().dims[1].size == 1) return x;
  std::vector<int64_t> places(static_cast<size_t>(x.type().dims[1].size));
  std::iota(places.rbegin(), places.rend(), 0);
  return GatherAt(x, 1, places);
}

bool HasMask(const LayerContext& context) {
  return context.inputs.size() == 1 || context.mask_is_given || context.config.Bool("keep_mask");
}

LayerClass RecurrentCall(ClassSchema schema) {
  schema.arguments.push_back(
      Bool("keep_mask",
           "True: with an initial_state, the mask that comes with the sequence counts, as in "
           "Keras 2; in Keras 3 only one that is an argument of the call does.")
          .Default(false));
  return {.schema = std::move(schema),
          .max_inputs = kAnyNumberOfInputs,
          .mask = MaskRule::kOwn,
          .call = {"sequences", "initial_state"},
          .several_outputs = true};
}

LayerClass RecurrentLayer(RecurrentClass recurrent) {
  std::vector<Argument> own;
  for (Argument& argument : recurrent.schema.arguments) {
    if (argument.name != "name" && argument.name != "dtype" && argument.name != "trainable" &&
        argument.name != "activity_regularizer") {
      own.push_back(std::move(argument));
    }
  }
  LayerClass layer =
      RecurrentCall(LayerSchema(recurrent.schema.name, recurrent.schema.doc, std::move(own)));
  layer.build = [recurrent =
                     std::move(recurrent)](LayerContext* context) -> absl::StatusOr<LayerOutput> {
    COHORT_ASSIGN_OR_RETURN(RecurrentRun run, RunOf(context->config));
    run.has_mask = HasMask(*context);
    COHORT_ASSIGN_OR_RETURN(const RecurrentResult made, RunCell(*context, recurrent, run));
    LayerOutput y(made.y);
    if (run.all_steps) {
      y = LayerOutput(run.backwards ? FlipSteps(made.y) : made.y, {}, context->inputs[0].mask);
    }
    if (!run.returns_states || !made.y.valid()) return y;
    std::vector<LayerOutput> all = {y};
    all.insert(all.end(), made.states.begin(), made.states.end());
    return LayerOutput(std::move(all));
  };
  return layer;
}

}  // namespace cohort
