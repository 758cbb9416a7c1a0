// TimeDistributed (keras/src/layers/rnn/time_distributed.py): the steps are further records.
#include "common/graph/expr.h"
#include "common/model/layers/layer_schemas.h"
#include "common/model/layers/masks.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildTimeDistributed(LayerContext* context) {
  const v1::ClassConfig& inner = context->config.Object("layer");
  COHORT_ASSIGN_OR_RETURN(const LayerClass* layer_class, Layers().Find(inner.class_name()));
  const std::string& class_name = layer_class->schema.name;
  if (layer_class->build == nullptr || layer_class->takes_keys || layer_class->min_inputs > 1 ||
      class_name == "BatchNormalization" || class_name == "TimeDistributed") {
    return InvalidArgument("{} inside TimeDistributed is not supported", class_name);
  }
  const Expr x = context->inputs[0].value;
  if (x.rank() < 3) {
    return InvalidArgument("its input needs axes beside batch and steps, and is {}",
                           TypeToString(x.type()));
  }
  std::vector<int64_t> dims = ReshapeDims(x.type().dims);
  const int64_t steps = dims[1], records = dims[0];
  dims.erase(dims.begin());
  dims[0] = records < 0 ? -1 : records * steps;
  v1::ClassConfig config = inner;
  if (!context->trainable()) (*config.mutable_config())["trainable"] = ConfigOf(false);
  LayerContext each = context->Inner(config, InnerName(context->config, "layer"));
  each.inputs = {LayerOutput(Reshape(x, std::move(dims)))};
  auto output = BuildLayer(*layer_class, &each);
  if (!output.ok()) return Annotate(output.status(), class_name);
  if (!output->value.valid()) return LayerOutput{};
  std::vector<int64_t> result = ReshapeDims(output->value.type().dims);
  result[0] = steps;
  result.insert(result.begin(), records);
  const auto by_step = [&](Expr value) { return Reshape(value, result); };
  return LayerOutput(by_step(output->value),
                     output->logits.valid() ? by_step(output->logits) : Expr());
}

}  // namespace

LayerClass TimeDistributedLayer() {
  return {.schema =
              LayerSchema("TimeDistributed", "Applies a layer to each step of [batch, steps, ...].",
                          {Object("layer", LayerSchemas, "The layer, with its arguments."),
                           InnerNameArgument("layer")}),
          .mask = MaskRule::kPass,
          .build = BuildTimeDistributed};
}

}  // namespace cohort
