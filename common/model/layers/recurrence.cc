// Runs cells through sequences.
#include "common/model/layers/recurrence.h"

#include <algorithm>
#include <numeric>

#include "common/model/layers/axes.h"

namespace cohort {

ClassRegistry<RecurrentClass>& RecurrentLayers() {
  static auto& layers =
      *new ClassRegistry<RecurrentClass>("recurrent layer", SchemaSet::Spelling::kExact, "",
                                         {GruClass(), LstmClass(), RnnClass(), SimpleRnnClass()});
  return layers;
}

const SchemaSet& RecurrentLayerSchemas() { return RecurrentLayers(); }

std::vector<Argument> WithRecurrentArguments(std::vector<Argument> own) {
  for (Argument& argument : std::vector<Argument>{
           Bool("return_sequences", "True: the outputs of all steps, not only the last one.")
               .Default(false),
           Bool("return_state", "Only false: a layer has one output.").Default(false),
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
  if (config.Bool("return_state")) {
    return Unimplemented(
        "return_state: true is not supported: a layer has one output. The last state of GRU and "
        "SimpleRNN is their output without return_sequences");
  }
  return RecurrentRun{.backwards = config.Bool("go_backwards"),
                      .all_steps = config.Bool("return_sequences"),
                      .zero_where_masked = config.Bool("zero_output_for_mask")};
}

namespace {

// The parts of `count` steps from `begin`, by halves: the gradient of a slice is as large as what
// it is a part of.
void SplitSteps(Expr x, std::vector<Expr>* steps) {
  if (!x.valid()) return;
  const ValueType type = x.type();
  const int64_t count = type.dims[1].size, half = count / 2;
  if (count == 1) {
    steps->push_back(Reshape(x, {-1, type.dims[2].size}));
    return;
  }
  SplitSteps(Slice(x, 1, 0, half), steps);
  SplitSteps(Slice(x, 1, half, count - half), steps);
}

// [batch, features] as one step.
Expr AsStep(Expr x) { return x.valid() ? Reshape(x, {-1, 1, x.type().dims[1].size}) : x; }

// Step i of [batch, steps, features], without the axis of steps.
Expr StepAt(Expr x, int64_t i) {
  return x.valid() ? Reshape(Slice(x, 1, i, 1), {-1, x.type().dims[2].size}) : x;
}

// Zeros [batch, size], with the batch of x [batch, features].
Expr ZeroState(Expr x, int64_t size) {
  const Expr zeros = x.builder()->Constant(Tensor::Zeros(x.dtype(), {size}));
  return BroadcastLike(x.builder()->Scalar(0, x.dtype()), Slice(x, 1, 0, 1)) + zeros;
}

// Step by step. `mask` [batch, steps] may be no value.
absl::StatusOr<Expr> Unroll(Cell* cell, Expr projected, Expr mask, const RecurrentRun& run) {
  std::vector<Expr> inputs;
  SplitSteps(projected, &inputs);
  if (inputs.empty() || !inputs[0].valid()) return Expr();
  std::vector<Expr> states, outputs(inputs.size());
  for (const int64_t size : cell->state_sizes()) states.push_back(ZeroState(inputs[0], size));
  const Expr zero = ZeroState(inputs[0], cell->output_size());
  Expr last = zero;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t at = run.backwards ? inputs.size() - 1 - i : i;
    std::vector<Expr> next = states;
    COHORT_ASSIGN_OR_RETURN(Expr output, cell->Step(inputs[at], next));
    if (mask.valid()) {
      const Expr counts = Slice(mask, 1, static_cast<int64_t>(at), 1);
      for (size_t s = 0; s < states.size(); ++s) next[s] = Select(counts, next[s], states[s]);
      output = Select(counts, output, run.zero_where_masked ? zero : last);
    }
    states = std::move(next);
    last = output;
    outputs[at] = AsStep(output);
  }
  return run.all_steps ? Concat(outputs, 1) : last;
}

// By the op of the cell.
absl::StatusOr<Expr> RunOp(Cell* cell, Expr projected, Expr mask, const RecurrentRun& run) {
  COHORT_ASSIGN_OR_RETURN(Expr all,
                          cell->AllSteps(projected, {.mask = mask, .backwards = run.backwards}));
  if (!all.valid()) return all;
  const int64_t steps = all.type().dims[1].size, last = run.backwards ? 0 : steps - 1;
  const Expr y = run.all_steps ? all : StepAt(all, last);
  if (!mask.valid() || !run.zero_where_masked) return y;
  const Expr counts = run.all_steps ? Reshape(mask, {-1, steps, 1}) : Slice(mask, 1, last, 1);
  return Select(counts, y, y.builder()->Scalar(0, y.dtype()));
}

}  // namespace

absl::StatusOr<Expr> RunCell(const LayerContext& context, const CellMaker& make_cell,
                             const RecurrentRun& run) {
  const Expr x = context.FloatInput(0), mask = context.inputs[0].mask;
  COHORT_RETURN_IF_ERROR(CheckAxes(x.type(), 3, "[batch, steps, features]"));
  if (mask.valid() && mask.rank() != 2) {
    return InvalidArgument("the mask of its input must be [batch, steps], and is {}",
                           TypeToString(mask.type()));
  }
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<Cell> cell,
                          make_cell(context, x.type().dims.back().size));
  COHORT_ASSIGN_OR_RETURN(const Expr projected, cell->Project(x));
  return cell->has_op() ? RunOp(cell.get(), projected, mask, run)
                        : Unroll(cell.get(), projected, mask, run);
}

Expr FlipSteps(Expr x) {
  if (!x.valid() || x.type().dims[1].size == 1) return x;
  std::vector<int64_t> places(static_cast<size_t>(x.type().dims[1].size));
  std::iota(places.rbegin(), places.rend(), 0);
  return GatherAt(x, 1, places);
}

LayerClass RecurrentLayer(RecurrentClass recurrent) {
  std::vector<Argument> own;
  for (Argument& argument : recurrent.schema.arguments) {
    if (argument.name != "name" && argument.name != "dtype" && argument.name != "trainable" &&
        argument.name != "activity_regularizer") {
      own.push_back(std::move(argument));
    }
  }
  return {.schema = LayerSchema(recurrent.schema.name, recurrent.schema.doc, std::move(own)),
          .mask = MaskRule::kOwn,
          .build = [make_cell = std::move(recurrent.make_cell)](
                       LayerContext* context) -> absl::StatusOr<LayerOutput> {
            COHORT_ASSIGN_OR_RETURN(const RecurrentRun run, RunOf(context->config));
            COHORT_ASSIGN_OR_RETURN(const Expr y, RunCell(*context, make_cell, run));
            if (!run.all_steps) return y;
            return LayerOutput(run.backwards ? FlipSteps(y) : y, {}, context->inputs[0].mask);
          }};
}

}  // namespace cohort
