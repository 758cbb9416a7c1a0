// SpatialDropout1D and SpatialDropout2D (keras/src/layers/regularization/spatial_dropout.py): one
// number of the mask for a whole channel of a record.
#include "common/model/layers/axes.h"
#include "common/model/layers/dropout_mask.h"

namespace cohort {
namespace {

std::vector<Argument> SpatialDropoutArguments() {
  return {Float("rate", "Share of the channels that become 0.").Between(0, 1),
          DropoutSeedArgument()};
}

LayerClass SpatialDropout(std::string_view name, std::vector<Argument> arguments,
                          std::vector<int64_t> noise_shape, std::string_view axes) {
  const std::string doc =
      fmt::format("Sets random channels of {} to 0 in training, and scales the others.", axes);
  return {.schema = LayerSchema(name, doc, std::move(arguments)),
          .mask = MaskRule::kPass,
          .build = [noise_shape, axes](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            const Expr x = context->inputs[0].value;
            COHORT_RETURN_IF_ERROR(CheckAxes(x.type(), noise_shape.size(), axes));
            return DropOut(context, noise_shape);
          }};
}

}  // namespace

LayerClass SpatialDropout1DLayer() {
  return SpatialDropout("SpatialDropout1D", SpatialDropoutArguments(), {-1, 1, -1},
                        "[batch, steps, channels]");
}

LayerClass SpatialDropout2DLayer() {
  std::vector<Argument> arguments = SpatialDropoutArguments();
  arguments.push_back(DataFormatArgument());
  return SpatialDropout("SpatialDropout2D", std::move(arguments), {-1, 1, 1, -1},
                        "[batch, rows, columns, channels]");
}

LayerClass SpatialDropout3DLayer() {
  std::vector<Argument> arguments = SpatialDropoutArguments();
  arguments.push_back(DataFormatArgument());
  return SpatialDropout("SpatialDropout3D", std::move(arguments), {-1, 1, 1, 1, -1},
                        "[batch, depth, rows, columns, channels]");
}

}  // namespace cohort
