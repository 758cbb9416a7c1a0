// keras/src/activations/activations.py, keras/src/backend/tensorflow/nn.py.
#include "common/model/activation_functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/graph/expr.h"
#include "common/model/layers/axes.h"

namespace cohort {
namespace {

Expr ScalarLike(Expr x, double value) {
  return x.valid() ? x.builder()->Scalar(value, x.dtype()) : Expr();
}

}  // namespace

ReluOptions ReluOptionsOf(const Config& config) {
  ReluOptions options{config.Float("negative_slope"), {}, config.Float("threshold")};
  if (!config.IsNone("max_value")) options.max_value = config.Float("max_value");
  return options;
}

Expr ReluWith(Expr x, const ReluOptions& options) {
  const double slope = options.negative_slope, threshold = options.threshold;
  if (slope != 0 && !options.max_value && threshold == 0) return LeakyRelu(x, slope);
  const Expr zero = ScalarLike(x, 0);
  Expr y = threshold == 0 ? Relu(x) : Select(Greater(x, ScalarLike(x, threshold)), x, zero);
  if (options.max_value) y = Clip(y, 0, *options.max_value);
  return slope == 0 ? y : y - slope * Relu(threshold - x);
}

Expr LeakyRelu(Expr x, double negative_slope) {
  return Select(Greater(x, ScalarLike(x, 0)), x, negative_slope * x);
}

Expr Elu(Expr x, double alpha) {
  const Expr zero = ScalarLike(x, 0);
  // The minimum keeps exp finite where its result does not count.
  return Select(Greater(x, zero), x, alpha * (Exp(Minimum(x, zero)) - 1.0));
}

Expr Celu(Expr x, double alpha) {
  const Expr zero = ScalarLike(x, 0);
  return Maximum(x, zero) + alpha * (Exp(Minimum(x, zero) / alpha) - 1.0);
}

Expr Selu(Expr x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return kScale * Elu(x, kAlpha);
}

Expr Gelu(Expr x, bool approximate) {
  if (!approximate) return 0.5 * x * (1.0 + Erf(x * (1 / std::numbers::sqrt2)));
  const double factor = std::sqrt(2 / std::numbers::pi);
  return 0.5 * x * (1.0 + Tanh(factor * (x + 0.044715 * (x * Square(x)))));
}

Expr HardSigmoid(Expr x) { return Clip(x + 3.0, 0, 6) / 6.0; }

Expr HardShrink(Expr x, double threshold) {
  return Select(Greater(Abs(x), ScalarLike(x, threshold)), x, ScalarLike(x, 0));
}

Expr SoftShrink(Expr x, double threshold) {
  const Expr below = Select(Less(x, ScalarLike(x, -threshold)), x + threshold, ScalarLike(x, 0));
  return Select(Greater(x, ScalarLike(x, threshold)), x - threshold, below);
}

Expr SparsePlus(Expr x) {
  const Expr middle = Select(Less(x, ScalarLike(x, 1)), 0.25 * Square(x + 1.0), x);
  return Select(Greater(x, ScalarLike(x, -1)), middle, ScalarLike(x, 0));
}

Argument AxisArgument() {
  return Int("axis", "The axis; negative ones count from the end.").Default(-1);
}

absl::StatusOr<LayerOutput> OverLastAxis(Expr x, std::vector<int64_t> axes, Expr (*f)(Expr)) {
  COHORT_ASSIGN_OR_RETURN(axes, LayerAxes(axes, x.type()));
  if (axes.size() == 1 && axes[0] == static_cast<int64_t>(x.rank()) - 1) {
    return f(x);
  }
  // The axes move to the end and become one.
  const AxesLast order = MoveLast(x.rank(), axes);
  const Expr moved = Transpose(x, order.there);
  if (!moved.valid()) return LayerOutput{};
  std::vector<int64_t> dims = ReshapeDims(moved.type().dims), joined = dims;
  joined.resize(dims.size() - axes.size());
  joined.push_back(1);
  for (size_t i = joined.size() - 1; i < dims.size(); ++i) joined.back() *= dims[i];
  return Transpose(Reshape(f(Reshape(moved, std::move(joined))), std::move(dims)), order.back);
}

absl::StatusOr<LayerOutput> SoftmaxOver(Expr x, std::vector<int64_t> axes) {
  if (x.rank() < 2) {
    return InvalidArgument("softmax needs two axes at least, not {}", TypeToString(x.type()));
  }
  const bool last =
      axes.size() == 1 && (axes[0] == -1 || axes[0] == static_cast<int64_t>(x.rank()) - 1);
  COHORT_ASSIGN_OR_RETURN(LayerOutput output, OverLastAxis(x, std::move(axes), Softmax));
  // A cross entropy takes the softmax of logits over the last axis.
  if (last) output.logits = x;
  return output;
}

absl::StatusOr<LayerOutput> GatedLinearUnit(Expr x, int64_t axis) {
  COHORT_ASSIGN_OR_RETURN(const auto axes, LayerAxes(std::vector<int64_t>{axis}, x.type()));
  const int64_t size = x.type().dims[static_cast<size_t>(axes[0])].size;
  if (size % 2 != 0) {
    return InvalidArgument("glu halves axis {}, whose size {} is odd", axis, size);
  }
  return Slice(x, axes[0], 0, size / 2) * Sigmoid(Slice(x, axes[0], size / 2, size / 2));
}

}  // namespace cohort
