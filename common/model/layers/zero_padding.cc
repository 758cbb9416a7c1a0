// ZeroPadding1D and ZeroPadding2D (keras/src/layers/reshaping/zero_padding1d.py,
// zero_padding2d.py).
#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/borders.h"
#include "common/model/layers/layer.h"

namespace cohort {
namespace {

// `count` zeros along the axis, in the shape of x otherwise.
Expr ZerosBeside(Expr x, int64_t axis, int64_t count) {
  const Expr zero = x.builder()->Scalar(0, x.dtype());
  std::vector<int64_t> dims(x.rank() - static_cast<size_t>(axis), 1);
  dims[0] = count;
  return BroadcastLike(zero, Slice(x, axis, 0, 1)) +
         x.builder()->Constant(Tensor::Zeros(x.dtype(), dims));
}

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
              const auto axis = static_cast<int64_t>(i + 1);
              std::vector<Expr> parts;
              const auto [before, after] = borders[i];
              if (before > 0) parts.push_back(ZerosBeside(x, axis, before));
              parts.push_back(x);
              if (after > 0) parts.push_back(ZerosBeside(x, axis, after));
              if (parts.size() > 1) x = Concat(parts, axis);
              if (!x.valid()) return LayerOutput{};
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

}  // namespace cohort
