// AdaptiveAveragePooling1D to 3D and AdaptiveMaxPooling1D to 3D
// (keras/src/layers/pooling/base_adaptive_pooling.py): as many windows as asked for.
#include "common/model/layers/axes.h"
#include "common/model/layers/spatial.h"

namespace cohort {
namespace {

// Window i of `out` over `in` elements.
struct AdaptiveWindow {
  int64_t begin, end;

  AdaptiveWindow(int64_t i, int64_t in, int64_t out)
      : begin(i * in / out), end(((i + 1) * in + out - 1) / out) {}
};

// By a product with the matrix [in, out] of the shares of each element in each window.
Expr AverageAlong(Expr x, int64_t axis, int64_t out) {
  if (!x.valid()) return x;
  const int64_t in = x.type().dims[static_cast<size_t>(axis)].size;
  Tensor shares = Tensor::Zeros(DType::kFloat64, {in, out});
  for (int64_t i = 0; i < out; ++i) {
    const AdaptiveWindow w(i, in, out);
    for (int64_t j = w.begin; j < w.end; ++j) {
      shares.mutable_values<double>()[static_cast<size_t>(j * out + i)] =
          1 / static_cast<double>(w.end - w.begin);
    }
  }
  std::vector<int64_t> perm;
  for (size_t i = 0; i < x.rank(); ++i) perm.push_back(static_cast<int64_t>(i));
  std::swap(perm[static_cast<size_t>(axis)], perm.back());
  const Expr moved = Transpose(x, perm);
  std::vector<int64_t> dims = ReshapeDims(moved.type().dims);
  dims.back() = out;
  const Expr y = MatMul(Reshape(moved, {-1, in}), Cast(x.builder()->Constant(shares), x.dtype()));
  return Transpose(Reshape(y, std::move(dims)), perm);
}

Expr MaximumAlong(Expr x, int64_t axis, int64_t out) {
  if (!x.valid()) return x;
  const int64_t in = x.type().dims[static_cast<size_t>(axis)].size;
  std::vector<Expr> windows;
  for (int64_t i = 0; i < out; ++i) {
    const AdaptiveWindow w(i, in, out);
    windows.push_back(ReduceMax(Slice(x, axis, w.begin, w.end - w.begin), {axis}, true));
  }
  return Concat(windows, axis);
}

LayerClass AdaptivePooling(std::string_view name, std::string_view what, size_t rank,
                           Expr (*along)(Expr, int64_t, int64_t)) {
  return {.schema = LayerSchema(
              name, fmt::format("The {} of each of as many windows as output_size says.", what),
              {Ints("output_size", "Windows along each axis.").AtLeast(1), DataFormatArgument()}),
          .build = [rank, along](LayerContext* context) -> absl::StatusOr<LayerOutput> {
            COHORT_ASSIGN_OR_RETURN(Expr x, SpatialInput(*context, rank));
            COHORT_ASSIGN_OR_RETURN(const auto sizes,
                                    SpatialSizes(context->config, "output_size", rank));
            for (size_t i = 0; i < rank; ++i) x = along(x, static_cast<int64_t>(i + 1), sizes[i]);
            return x;
          }};
}

}  // namespace

LayerClass AdaptiveAveragePooling1DLayer() {
  return AdaptivePooling("AdaptiveAveragePooling1D", "mean", 1, AverageAlong);
}
LayerClass AdaptiveAveragePooling2DLayer() {
  return AdaptivePooling("AdaptiveAveragePooling2D", "mean", 2, AverageAlong);
}
LayerClass AdaptiveAveragePooling3DLayer() {
  return AdaptivePooling("AdaptiveAveragePooling3D", "mean", 3, AverageAlong);
}
LayerClass AdaptiveMaxPooling1DLayer() {
  return AdaptivePooling("AdaptiveMaxPooling1D", "maximum", 1, MaximumAlong);
}
LayerClass AdaptiveMaxPooling2DLayer() {
  return AdaptivePooling("AdaptiveMaxPooling2D", "maximum", 2, MaximumAlong);
}
LayerClass AdaptiveMaxPooling3DLayer() {
  return AdaptivePooling("AdaptiveMaxPooling3D", "maximum", 3, MaximumAlong);
}

}  // namespace cohort
