// Cropping1D, Cropping2D and Cropping3D (keras/src/layers/reshaping/cropping1d.py, cropping2d.py,
// cropping3d.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/borders.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

LayerClass Cropping(std::string_view name, size_t axes, std::string_view shape,
                    std::vector<Argument> arguments) {
  return {.schema = LayerSchema(name, fmt::format("Removes the borders of {}.", shape),
                                std::move(arguments)),
          .build = [axes, shape](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            Expr x = context->inputs[0].value;
            const ValueType type = x.type();
            COHORT_RETURN_IF_ERROR(CheckAxes(type, axes + 2, shape));
            COHORT_ASSIGN_OR_RETURN(const auto borders,
                                    BordersOf("cropping", context->config.Ints("cropping"), axes));
            for (size_t i = 0; i < axes; ++i) {
              const auto [before, after] = borders[i];
              const int64_t size = type.dims[i + 1].size;
              if (before >= size || after >= size - before) {
                return InvalidArgument("cropping {} + {} leaves nothing of axis {} of {}", before,
                                       after, i + 1, TypeToString(type));
              }
              if (before + after == 0) continue;
              x = Slice(x, static_cast<int64_t>(i + 1), before, size - before - after);
            }
            return x;
          }};
}

}  // namespace

LayerClass Cropping1DLayer() {
  return Cropping("Cropping1D", 1, "[batch, steps, features]",
                  {Ints("cropping", "Steps on each side, or [before, after].")
                       .Default(std::vector<int64_t>{1, 1})
                       .AtLeast(0)});
}

LayerClass Cropping2DLayer() {
  return Cropping(
      "Cropping2D", 2, "[batch, rows, columns, channels]",
      {Ints("cropping", "On each side, or [rows, columns], or [[top, bottom], [left, right]].")
           .Default(std::vector<int64_t>{0, 0, 0, 0})
           .AtLeast(0)
           .Nested(),
       DataFormatArgument()});
}

LayerClass Cropping3DLayer() {
  return Cropping("Cropping3D", 3, "[batch, depth, rows, columns, channels]",
                  {Ints("cropping", "On each side, or one number or pair for each axis.")
                       .Default(std::vector<int64_t>{1, 1, 1, 1, 1, 1})
                       .AtLeast(0)
                       .Nested(),
                   DataFormatArgument()});
}

}  // namespace cohort
