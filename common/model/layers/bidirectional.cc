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
  if (run->backwards == forward.run.backwards || run->all_steps != forward.run.all_steps) {
    return InvalidArgument(
        "backward_layer must have another go_backwards than layer, and the same return_sequences");
  }
  const bool named = Config(layer).Has("name");
  return Direction{layer, named ? NestedName(layer) : WithPrefix("backward_", NestedName(layer)),
                   *run};
}

absl::StatusOr<Expr> RunDirection(const LayerContext& context, Direction direction) {
  COHORT_ASSIGN_OR_RETURN(const RecurrentClass* layer,
                          RecurrentLayers().Find(direction.config.class_name()));
  const NestedContext nested(context, direction.config, direction.name);
  // As Keras has it, whatever the layer says.
  direction.run.zero_where_masked = direction.run.all_steps;
  return RunCell(nested.context, layer->make_cell, direction.run);
}

absl::StatusOr<LayerOutput> BuildBidirectional(LayerContext* context) {
  const Config& config = context->config;
  const std::string& mode = config.String("merge_mode");
  if (mode == "none") {
    return Unimplemented(
        "merge_mode: none gives two outputs, and a layer has one: use two layers, one of them with "
        "go_backwards: true, or merge_mode: concat");
  }
  COHORT_ASSIGN_OR_RETURN(const Direction forward, Forward(config));
  COHORT_ASSIGN_OR_RETURN(const Direction backward, Backward(config, forward));
  COHORT_ASSIGN_OR_RETURN(const Expr a, RunDirection(*context, forward));
  COHORT_ASSIGN_OR_RETURN(const Expr b, RunDirection(*context, backward));
  if (!a.valid() || !b.valid()) return LayerOutput{};
  const Expr mask = forward.run.all_steps ? context->inputs[0].mask : Expr();
  const auto last_axis = static_cast<int64_t>(a.rank()) - 1;
  const Expr y = mode == "concat" ? Concat(std::vector<Expr>{a, b}, last_axis)
                 : mode == "sum"  ? a + b
                 : mode == "mul"  ? a * b
                                  : (a + b) / 2.0;
  return LayerOutput(y, {}, mask);
}

}  // namespace

LayerClass BidirectionalLayer() {
  return {.schema = LayerSchema(
              "Bidirectional", "Runs a recurrent layer forwards and backwards.",
              {Object("layer", RecurrentLayerSchemas, "The layer: LSTM, GRU, SimpleRNN or RNN."),
               String("merge_mode", "How the two outputs become one.")
                   .Default("concat")
                   .OneOf({"concat", "sum", "mul", "ave", "none"}),
               Object("backward_layer", RecurrentLayerSchemas,
                      "The layer that runs backwards; none: `layer` with weights of its own.")
                   .Optional(),
               Planned("weights")}),
          .mask = MaskRule::kOwn,
          .build = BuildBidirectional};
}

}  // namespace cohort
