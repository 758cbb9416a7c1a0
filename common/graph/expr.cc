#include "common/graph/expr.h"

#include <algorithm>

namespace cohort {
namespace {

// A number beside a value takes the dtype of the value.
Expr Like(Expr x, double value) {
  return x.valid() ? x.builder()->Scalar(value, x.dtype()) : Expr();
}

int64_t Normalized(Expr x, int64_t axis) {
  return axis < 0 && x.valid() ? axis + static_cast<int64_t>(x.rank()) : axis;
}

std::vector<int64_t> NormalizedAll(Expr x, std::vector<int64_t> axes) {
  for (int64_t& axis : axes) axis = Normalized(x, axis);
  std::sort(axes.begin(), axes.end());
  return axes;
}

std::vector<int64_t> AllAxes(Expr x) {
  std::vector<int64_t> axes(x.valid() ? x.rank() : 0);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return axes;
}

std::string DTypeOrOwn(Expr x, DType dtype) {
  if (dtype == DType::kInvalid && x.valid()) dtype = x.dtype();
  return std::string(DTypeName(dtype));
}

std::pair<Expr, Expr> TracePair(std::string_view op, Expr x, Attrs attrs) {
  const auto outputs = x.builder()->OpOutputs(op, std::span<const Expr>(&x, 1), std::move(attrs));
  return {outputs[0], outputs[1]};
}

Attrs PoolAttrs(std::vector<int64_t> window, std::vector<int64_t> strides, std::string padding) {
  return {{"window", std::move(window)},
          {"strides", std::move(strides)},
          {"padding", std::move(padding)}};
}

Attrs ConvAttrs(const ConvOptions& o) {
  return {{"strides", std::vector<int64_t>(o.strides.begin(), o.strides.end())},
          {"dilations", std::vector<int64_t>(o.dilations.begin(), o.dilations.end())},
          {"pads", std::vector<int64_t>(o.pads.begin(), o.pads.end())},
          {"groups", o.groups}};
}

}  // namespace

Expr Trace(std::string_view op, std::initializer_list<Expr> inputs, Attrs attrs) {
  for (const Expr& x : inputs) {
    if (x.builder() != nullptr) return x.builder()->Op(op, inputs, std::move(attrs));
  }
  return {};
}

Expr operator+(Expr a, double b) { return a + Like(a, b); }
Expr operator-(Expr a, double b) { return a - Like(a, b); }
Expr operator*(Expr a, double b) { return a * Like(a, b); }
Expr operator/(Expr a, double b) { return a / Like(a, b); }
Expr operator+(double a, Expr b) { return Like(b, a) + b; }
Expr operator-(double a, Expr b) { return Like(b, a) - b; }
Expr operator*(double a, Expr b) { return Like(b, a) * b; }
Expr operator/(double a, Expr b) { return Like(b, a) / b; }

Expr Pow(Expr a, double b) { return Pow(a, Like(a, b)); }

Expr Less(Expr a, Expr b) { return Greater(b, a); }

Expr ClipGrad(Expr grad, Expr x, double min, double max) {
  return Trace("clip_grad", {grad, x}, {{"min", min}, {"max", max}});
}

Expr Clip(Expr x, double min, double max) {
  return Trace("clip", {x}, {{"min", min}, {"max", max}});
}

Expr Cast(Expr x, DType dtype) {
  if (x.valid() && x.dtype() == dtype) return x;
  return Trace("cast", {x}, {{"dtype", std::string(DTypeName(dtype))}});
}

Expr MatMul(Expr a, Expr b, bool transpose_a, bool transpose_b) {
  return Trace("matmul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

Expr BatchMatMul(Expr a, Expr b, bool transpose_a, bool transpose_b) {
  return Trace("batch_matmul", {a, b},
               {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

Expr Reshape(Expr x, std::vector<int64_t> dims) {
  return Trace("reshape", {x}, {{"dims", std::move(dims)}});
}

Expr Concat(std::span<const Expr> xs, int64_t axis) {
  for (const Expr& x : xs) {
    if (x.builder() == nullptr) continue;
    return x.builder()->Op("concat", xs, {{"axis", Normalized(xs[0], axis)}});
  }
  return {};
}

Expr Slice(Expr x, int64_t axis, int64_t begin, int64_t size) {
  return Trace("slice", {x}, {{"axis", Normalized(x, axis)}, {"begin", begin}, {"size", size}});
}

Expr Transpose(Expr x, std::vector<int64_t> perm) {
  return Trace("transpose", {x}, {{"perm", std::move(perm)}});
}

Expr ReduceSum(Expr x) { return ReduceSum(x, AllAxes(x)); }

Expr ReduceSum(Expr x, std::vector<int64_t> axes, bool keepdims) {
  return Trace("reduce_sum", {x},
               {{"axes", NormalizedAll(x, std::move(axes))}, {"keepdims", keepdims}});
}

Expr ReduceMax(Expr x, std::vector<int64_t> axes, bool keepdims) {
  return Trace("reduce_max", {x},
               {{"axes", NormalizedAll(x, std::move(axes))}, {"keepdims", keepdims}});
}

Expr ReduceMin(Expr x, std::vector<int64_t> axes, bool keepdims) {
  return -ReduceMax(-x, std::move(axes), keepdims);
}

Expr ReduceProd(Expr x, std::vector<int64_t> axes, bool keepdims) {
  return Trace("reduce_prod", {x},
               {{"axes", NormalizedAll(x, std::move(axes))}, {"keepdims", keepdims}});
}

Expr ReduceMean(Expr x, std::vector<int64_t> axes, bool keepdims) {
  axes = NormalizedAll(x, std::move(axes));
  const Expr sum = ReduceSum(x, axes, keepdims);
  if (!sum.valid()) return {};
  const ValueType type = x.type();
  int64_t fixed = 1;
  Expr count;
  for (int64_t axis : axes) {
    const Dim dim = type.dims[static_cast<size_t>(axis)];
    if (!dim.bounded()) {
      fixed *= dim.size;
    } else {
      count = count.valid() ? count * DimSize(x, axis) : DimSize(x, axis);
    }
  }
  if (count.valid()) return sum / (count * static_cast<double>(fixed));
  return fixed == 1 ? sum : sum / static_cast<double>(fixed);
}

Expr DimSize(Expr x, int64_t axis, DType dtype) {
  return Trace("dim_size", {x}, {{"axis", Normalized(x, axis)}, {"dtype", DTypeOrOwn(x, dtype)}});
}

Expr NumElements(Expr x, DType dtype) {
  if (!x.valid()) return {};
  if (dtype == DType::kInvalid) dtype = x.dtype();
  const ValueType type = x.type();
  double fixed = 1;
  Expr count;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (!type.dims[i].bounded()) {
      fixed *= static_cast<double>(type.dims[i].size);
    } else {
      const Expr size = DimSize(x, static_cast<int64_t>(i), dtype);
      count = count.valid() ? count * size : size;
    }
  }
  if (!count.valid()) return x.builder()->Scalar(fixed, dtype);
  return fixed == 1 ? count : count * fixed;
}

Expr SumTo(Expr grad, const ValueType& type) {
  if (!grad.valid()) return {};
  const ValueType from = grad.type();
  if (from.dims.size() < type.dims.size()) {
    grad.builder()->Fail(Internal("a gradient {} has fewer axes than its value {}",
                                  TypeToString(from), TypeToString(type)));
    return {};
  }
  const size_t leading = from.dims.size() - type.dims.size();
  std::vector<int64_t> inner;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (type.dims[i] == Dim{1, 0} && from.dims[leading + i] != Dim{1, 0}) {
      inner.push_back(static_cast<int64_t>(i));
    }
  }
  if (leading > 0) {
    std::vector<int64_t> axes(leading);
    for (size_t i = 0; i < leading; ++i) axes[i] = static_cast<int64_t>(i);
    grad = ReduceSum(grad, std::move(axes));
  }
  return inner.empty() ? grad : ReduceSum(grad, std::move(inner), true);
}

std::pair<Expr, Expr> Unique(Expr ids, std::optional<int64_t> padding) {
  if (!ids.valid()) return {};
  ProgramBuilder* b = ids.builder();
  const int symbol = b->AddSymbol("keys", CapacityElements(ids.type()));
  Attrs attrs = {{"symbol", int64_t{symbol}}};
  if (padding.has_value()) attrs["padding"] = *padding;
  return TracePair("unique", ids, std::move(attrs));
}

Expr GatherGrad(Expr grad, Expr index, Expr rows) {
  return Trace("gather_grad", {grad, index, rows});
}

Expr Argsort(Expr x, bool descending) {
  return Trace("argsort", {x}, {{"descending", descending}});
}

Expr GatherAlongGrad(Expr grad, Expr index, Expr x) {
  return Trace("gather_along_grad", {grad, index, x});
}

Expr Bag(Expr rows, Expr index, Expr weights) {
  return weights.valid() ? Trace("bag", {rows, index, weights}) : Trace("bag", {rows, index});
}

Expr BagGrad(Expr grad, Expr index, Expr rows, Expr weights) {
  return weights.valid() ? Trace("bag_grad", {grad, index, rows, weights})
                         : Trace("bag_grad", {grad, index, rows});
}

std::pair<Expr, Expr> Dropout(Expr x, double rate, int64_t seed) {
  if (!x.valid()) return {};
  return TracePair("dropout", x,
                   {{"rate", rate}, {"seed", seed}, {"number", x.builder()->NextNumber()}});
}

Expr RandomNormalLike(Expr x, int64_t seed) {
  if (!x.valid()) return {};
  return Trace("random_normal", {x}, {{"seed", seed}, {"number", x.builder()->NextNumber()}});
}

Expr SigmoidCrossEntropy(Expr labels, Expr logits) {
  return Trace("sigmoid_cross_entropy", {labels, logits});
}

Expr SparseSoftmaxCrossEntropy(Expr labels, Expr logits) {
  return Trace("sparse_softmax_cross_entropy", {labels, logits});
}

Expr InTopK(Expr targets, Expr predictions, int64_t k) {
  return Trace("in_top_k", {targets, predictions}, {{"k", k}});
}

Expr MaxPool(Expr x, std::vector<int64_t> window, std::vector<int64_t> strides,
             std::string padding) {
  return Trace("max_pool", {x}, PoolAttrs(std::move(window), std::move(strides), padding));
}

Expr AvgPool(Expr x, std::vector<int64_t> window, std::vector<int64_t> strides,
             std::string padding) {
  return Trace("avg_pool", {x}, PoolAttrs(std::move(window), std::move(strides), padding));
}

Expr Conv2D(Expr x, Expr kernel, const ConvOptions& options) {
  return Trace("conv2d", {x, kernel}, ConvAttrs(options));
}

Expr Conv2DInputGrad(Expr grad, Expr kernel, std::array<int64_t, 2> size,
                     const ConvOptions& options) {
  Attrs attrs = ConvAttrs(options);
  attrs["size"] = std::vector<int64_t>(size.begin(), size.end());
  return Trace("conv2d_input_grad", {grad, kernel}, std::move(attrs));
}

BatchNormExprs BatchNormTrain(Expr x, Expr gamma, Expr beta, double epsilon) {
  if (!x.valid()) return {};
  const std::array<Expr, 3> inputs = {x, gamma, beta};
  const auto outputs = x.builder()->OpOutputs("batch_norm_train", inputs, {{"epsilon", epsilon}});
  return {outputs[0], outputs[1], outputs[2]};
}

namespace {

std::vector<Expr> Recurrence(std::string_view op, std::vector<Expr> inputs,
                             const RecurrenceOptions& options) {
  inputs.insert(inputs.end(), options.states.begin(), options.states.end());
  for (const Expr& input : inputs) {
    if (!input.valid()) return {Expr(), Expr()};
  }
  if (options.mask.valid()) inputs.push_back(options.mask);
  return inputs[0].builder()->OpOutputs(op, inputs, {{"backwards", options.backwards}});
}

}  // namespace

LstmExprs Lstm(Expr x, Expr kernel, const RecurrenceOptions& options) {
  const auto outputs = Recurrence("lstm", {x, kernel}, options);
  return {outputs[0], outputs[1]};
}

Expr Gru(Expr x, Expr kernel, Expr bias, const RecurrenceOptions& options) {
  return Recurrence("gru", {x, kernel, bias}, options)[0];
}

Expr SimpleRnn(Expr x, Expr kernel, const RecurrenceOptions& options) {
  return Recurrence("simple_rnn", {x, kernel}, options)[0];
}

Expr External(std::span<const Expr> inputs, const ExternalOptions& options) {
  for (const Expr& input : inputs) {
    if (!input.valid()) return Expr();
  }
  return inputs[0].builder()->OpOutputs("external", inputs,
                                        {{"columns", options.columns},
                                         {"results", options.results},
                                         {"names", options.names},
                                         {"training", options.training},
                                         {"seed", options.seed}})[0];
}

}  // namespace cohort
