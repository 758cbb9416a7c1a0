// ZeroPadding1D, ZeroPadding2D and ZeroPadding3D (keras/src/layers/reshaping/zero_padding1d.py,
// zero_padding2d.py, zero_padding3d.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/borders.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

LayerClass ZeroPadding(std::string_view name, size_t axes, std::string_view shape,
                       std::vector<Argument> arguments) {
  return {.schema =
              LayerSchema(name, fmt::format("Puts zeros around {}.", shape), std::move(arguments)),
          .build = [axes, shape](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            Expr x = context->FloatInput(0);
            COHORT_RETURN_IF_ERROR(CheckAxes(x.type(), axes + 2, shape));
            COHORT_ASSIGN_OR_RETURN(const auto borders,
                                    BordersOf("padding", context->config.Ints("padding"), axes));
            for (size_t i = 0; i < axes; ++i) {
              x = PadZeros(x, static_cast<int64_t>(i + 1), borders[i].first, borders[i].second);
            }
            return x;
          }};
}

}  // namespace

LayerClass ZeroPadding1DLayer() {
  return ZeroPadding("ZeroPadding1D", 1, "[batch, steps, features]",
                     {Ints("padding", "Steps on each side, or [before, after].")
                          .Default(std::vector<int64_t>{1})
                          .AtLeast(0),
                      DataFormatArgument()});
}

LayerClass ZeroPadding2DLayer() {
  return ZeroPadding(
      "ZeroPadding2D", 2, "[batch, rows, columns, channels]",
      {Ints("padding", "On each side, or [rows, columns], or [[top, bottom], [left, right]].")
           .Default(std::vector<int64_t>{1, 1})
           .AtLeast(0)
           .Nested(),
       DataFormatArgument()});
}

LayerClass ZeroPadding3DLayer() {
  return ZeroPadding("ZeroPadding3D", 3, "[batch, depth, rows, columns, channels]",
                     {Ints("padding", "On each side, or one number or pair for each axis.")
                          .Default(std::vector<int64_t>{1, 1, 1})
                          .AtLeast(0)
                          .Nested(),
                      DataFormatArgument()});
}

}  // namespace cohort
