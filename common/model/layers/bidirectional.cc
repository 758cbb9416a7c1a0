// Bidirectional (keras/src/layers/rnn/bidirectional.py).
#include "common/graph/expr.h"
#include "common/model/layers/recurrence.h"

namespace cohort {
namespace {

// One of the two runs: the arguments of its layer and the name of its variables.
struct Direction {
  const v1::ClassConfig& config;
  std::string name;
  RecurrentRun run;
};

std::string WithPrefix(std::string_view prefix, const std::string& name) {
  return name.starts_with(prefix) ? name : fmt::format("{}{}", prefix, name);
}

absl::StatusOr<Direction> Forward(const Config& config) {
  const v1::ClassConfig& layer = config.Object("layer");
  auto run = RunOf(Config(layer));
  if (!run.ok()) return Annotate(run.status(), "layer");
  return Direction{layer, WithPrefix("forward_", NestedName(layer)), *run};
}

// The same layer in the other direction, unless the argument gives another one.
absl::StatusOr<Direction> Backward(const Config& config, const Direction& forward) {
  if (!config.Has("backward_layer")) {
    Direction backward{forward.config, WithPrefix("backward_", NestedName(forward.config)),
                       forward.run};
    backward.run.backwards = !forward.run.backwards;
    return backward;
  }
  const v1::ClassConfig& layer = config.Object("backward_layer");
  auto run = RunOf(Config(layer));
  if (!run.ok()) return Annotate(run.status(), "backward_layer");
  if (run->backwards == forward.run.backwards || run->all_steps != forward.run.all_steps ||
      run->returns_states != forward.run.returns_states) {
    return InvalidArgument(
        "backward_layer must have another go_backwards than layer, and the same return_sequences "
        "and return_state");
  }
  const bool named = Config(layer).Has("name");
  return Direction{layer, named ? NestedName(layer) : WithPrefix("backward_", NestedName(layer)),
                   *run};
}

// `states` are those before the first step; may be empty.
absl::StatusOr<RecurrentResult> RunDirection(const LayerContext& context, Direction direction,
                                             std::span<const LayerOutput> states) {
  COHORT_ASSIGN_OR_RETURN(const RecurrentClass* layer,
                          RecurrentLayers().Find(direction.config.class_name()));
  NestedContext nested(context, direction.config, direction.name);
  nested.context.inputs.resize(1);
  nested.context.inputs.insert(nested.context.inputs.end(), states.begin(), states.end());
  // As Keras has it, whatever the layer says.
  direction.run.zero_where_masked = direction.run.all_steps;
  return RunCell(nested.context, *layer, direction.run);
}

absl::StatusOr<LayerOutput> BuildBidirectional(LayerContext* context) {
  const Config& config = context->config;
  const std::string& mode = config.String("merge_mode");
  COHORT_ASSIGN_OR_RETURN(Direction forward, Forward(config));
  COHORT_ASSIGN_OR_RETURN(Direction backward, Backward(config, forward));
  forward.run.has_mask = backward.run.has_mask = HasMask(*context);
  // The first half of the states is for the forward run.
  const std::span<const LayerOutput> states = std::span(context->inputs).subspan(1);
  const size_t half = states.size() / 2;
  COHORT_ASSIGN_OR_RETURN(const RecurrentResult made,
                          RunDirection(*context, forward, states.first(half)));
  COHORT_ASSIGN_OR_RETURN(const RecurrentResult other,
                          RunDirection(*context, backward, states.subspan(half)));
  const Expr a = made.y, b = other.y;
  if (!a.valid() || !b.valid()) return LayerOutput{};
  const Expr mask = forward.run.all_steps ? context->inputs[0].mask : Expr();
  const auto last_axis = static_cast<int64_t>(a.rank()) - 1;
  std::vector<LayerOutput> all;
  if (mode == "none") {
    all = {LayerOutput(a, {}, mask), LayerOutput(b, {}, mask)};
  } else {
    const Expr y = mode == "concat" ? Concat(std::vector<Expr>{a, b}, last_axis)
                   : mode == "sum"  ? a + b
                   : mode == "mul"  ? a * b
                                    : (a + b) / 2.0;
    all = {LayerOutput(y, {}, mask)};
  }
  all.insert(all.end(), made.states.begin(), made.states.end());
  all.insert(all.end(), other.states.begin(), other.states.end());
  return all.size() == 1 ? all[0] : LayerOutput(std::move(all));
}

}  // namespace

LayerClass BidirectionalLayer() {
  LayerClass layer = RecurrentCall(LayerSchema(
      "Bidirectional", "Runs a recurrent layer forwards and backwards.",
      {Object("layer", RecurrentLayerSchemas, "The layer: LSTM, GRU, SimpleRNN, RNN or ConvLSTM."),
       String("merge_mode", "How the two outputs become one; none: ops.part gives the other one.")
           .Default("concat")
           .OneOf({"concat", "sum", "mul", "ave", "none"}),
       Object("backward_layer", RecurrentLayerSchemas,
              "The layer that runs backwards; none: `layer` with weights of its own.")
           .Optional(),
       Planned("weights")}));
  layer.build = BuildBidirectional;
  return layer;
}

}  // namespace cohort
