// Functions over axes: sums, moments, extrema (keras/src/ops/numpy.py, math.py, linalg.py, nn.py).
#include "common/model/layers/axes.h"
#include "common/model/layers/normalize.h"
#include "common/model/operations/operation_list.h"

namespace cohort {
namespace {

using ReduceFn = Expr (*)(Expr x, std::vector<int64_t> axes, bool keepdims);

Expr Variance(Expr x, std::vector<int64_t> axes, bool keepdims) {
  const Expr centered = x - ReduceMean(x, axes, true);
  return ReduceMean(Square(centered), std::move(axes), keepdims);
}

Expr Deviation(Expr x, std::vector<int64_t> axes, bool keepdims) {
  return Sqrt(Variance(x, std::move(axes), keepdims));
}

// The greatest element goes out first, so that exp stays finite.
Expr LogSumExp(Expr x, std::vector<int64_t> axes, bool keepdims) {
  const Expr most = StopGradient(ReduceMax(x, axes, true));
  if (!most.valid()) return {};
  const Expr logarithm = Log(ReduceSum(Exp(x - most), axes, true)) + most;
  // Over axes of one element that is to drop them.
  return keepdims ? logarithm : ReduceSum(logarithm, std::move(axes), false);
}

LayerClass OfFloats(std::string_view name, std::string_view doc, ReduceFn reduce) {
  return Operation(name, doc, {"x"}, {AxisOrAll(), KeepDims()},
                   [reduce](LayerContext* context) -> MadeOutput {
                     const Expr x = FloatsOf(*context, "x");
                     COHORT_ASSIGN_OR_RETURN(auto axes, AxesOf(context->config, x));
                     return reduce(x, std::move(axes), context->config.Bool("keepdims"));
                   });
}

LayerClass OfNumbers(std::string_view name, std::string_view doc, ReduceFn reduce,
                     std::vector<Argument> more) {
  std::vector<Argument> arguments = {AxisOrAll(), KeepDims()};
  for (Argument& argument : more) arguments.push_back(std::move(argument));
  return Operation(name, doc, {"x"}, std::move(arguments),
                   [reduce](LayerContext* context) -> MadeOutput {
                     const Expr x[] = {context->inputs[0].value};
                     COHORT_ASSIGN_OR_RETURN(const auto axes, AxesOf(context->config, x[0]));
                     return Arithmetic(x, [&](std::span<const Expr> values) {
                       return reduce(values[0], axes, context->config.Bool("keepdims"));
                     });
                   });
}

LayerClass OfBools(std::string_view name, std::string_view doc, ReduceFn reduce) {
  return Operation(name, doc, {"x"}, {AxisOrAll(), KeepDims()},
                   [reduce](LayerContext* context) -> MadeOutput {
                     const Expr x = ToFloats(*context, ToBools(context->inputs[0].value));
                     COHORT_ASSIGN_OR_RETURN(auto axes, AxesOf(context->config, x));
                     const Expr y = reduce(x, std::move(axes), context->config.Bool("keepdims"));
                     return Greater(y, NumberLike(y, 0.5));
                   });
}

// The first of equal maxima of x, or minima if `sign` is -1.
LayerClass ArgOf(std::string_view name, std::string_view doc, double sign) {
  return Operation(
      name, doc, {"x"}, {Int("axis", "The axis; negative ones count from the end."), KeepDims()},
      [sign](LayerContext* context) -> MadeOutput {
        Expr x = FloatsOf(*context, "x");
        if (!x.valid()) return LayerOutput{};
        const size_t rank = x.rank();
        COHORT_ASSIGN_OR_RETURN(const int64_t axis, AxisOf(context->config.Int("axis"), rank));
        if (axis != static_cast<int64_t>(rank) - 1) {
          std::vector<int64_t> perm;
          for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
            if (i != axis) perm.push_back(i);
          }
          perm.push_back(axis);
          x = Transpose(x, std::move(perm));
        }
        const Expr found = ArgMax(sign < 0 ? -x : x);
        if (!context->config.Bool("keepdims") || !found.valid()) return found;
        std::vector<int64_t> dims = ReshapeDims(found.type().dims);
        dims.insert(dims.begin() + axis, 1);
        return Reshape(found, std::move(dims));
      });
}

MadeOutput NormOf(LayerContext* context) {
  const Expr x = FloatsOf(*context, "x");
  COHORT_ASSIGN_OR_RETURN(auto axes, AxesOf(context->config, x));
  const bool keepdims = context->config.Bool("keepdims");
  const double order = context->config.IsNone("ord") ? 2 : context->config.Float("ord");
  if (order == 1 && axes.size() == 1) return ReduceSum(Abs(x), std::move(axes), keepdims);
  if (order == 2 && (axes.size() == 1 || context->config.IsNone("ord"))) {
    return Sqrt(ReduceSum(Square(x), std::move(axes), keepdims));
  }
  return InvalidArgument(
      "ord {} over {} axes is not supported; supported: 1 and 2 over one axis, "
      "and none",
      order, axes.size());
}

MadeOutput NormalizeOf(LayerContext* context) {
  const Config& config = context->config;
  const Expr x = FloatsOf(*context, "x");
  COHORT_ASSIGN_OR_RETURN(const auto axes, AxesOf(config, x));
  const double epsilon = config.IsNone("epsilon") ? kKerasEpsilon : config.Float("epsilon");
  const int64_t order = config.Int("order");
  if (order == 2) return UnitLength(x, axes, epsilon);
  if (order == 1) return x / Maximum(ReduceSum(Abs(x), axes, true), NumberLike(x, epsilon));
  return InvalidArgument("order must be 1 or 2, not {}", order);
}

MadeOutput MomentsOf(LayerContext* context) {
  const Expr x = FloatsOf(*context, "x");
  COHORT_ASSIGN_OR_RETURN(const auto axes, AxesOf(context->config, x, "axes"));
  const bool keepdims = context->config.Bool("keepdims");
  return LayerOutput(
      std::vector<LayerOutput>{ReduceMean(x, axes, keepdims), Variance(x, axes, keepdims)});
}

}  // namespace

std::vector<LayerClass> ReductionOperations() {
  std::vector<LayerClass> all = {
      OfNumbers("sum", "The sum.", ReduceSum, {}),
      OfNumbers("max", "The greatest element.", ReduceMax, {Planned("initial")}),
      OfNumbers("min", "The smallest element.", ReduceMin, {Planned("initial")}),
      OfNumbers("amax", "The greatest element.", ReduceMax, {}),
      OfNumbers("amin", "The smallest element.", ReduceMin, {}),
      OfNumbers("prod", "The product.", ReduceProd, {Planned("dtype")}),
      OfFloats("mean", "The mean.", ReduceMean),
      OfFloats("var", "The mean square of the differences from the mean.", Variance),
      OfFloats("std", "The square root of var.", Deviation),
      OfFloats("logsumexp", "log(sum(exp(x)))", LogSumExp),
      OfBools("any", "One element is not 0, as bool.", ReduceMax),
      OfBools("all", "No element is 0, as bool.", ReduceMin),
      ArgOf("argmax", "The place of the greatest element.", 1),
      ArgOf("argmin", "The place of the smallest element.", -1),
      Operation(
          "norm", "The length of vectors.", {"x"},
          {Float("ord", "1: the sum of |x|; 2 or none: the root of the sum of squares.").Optional(),
           AxisOrAll(), KeepDims()},
          NormOf),
      Operation("normalize", "x divided by its length.", {"x"},
                {Ints("axis", "The axis, or a list of them.").Default(std::vector<int64_t>{-1}),
                 Int("order", "1 or 2, as ord of ops.norm.").Default(2),
                 Float("epsilon", "The least divisor; none: 1e-7.").Optional().AtLeast(0)},
                NormalizeOf),
      Operation("moments", "The mean and, as its part 1, the variance.", {"x"},
                {Ints("axes", "The axis, or a list of them."), KeepDims(),
                 Planned(Bool("synchronized", "").Default(false))},
                MomentsOf)};
  all.back().several_outputs = true;
  return all;
}

}  // namespace cohort
