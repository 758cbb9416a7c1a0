// Functions of single elements: of keras/src/ops/numpy.py, math.py and core.py, and the activations
// of nn.py.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/model/activations.h"
#include "common/model/layers/masks.h"
#include "common/model/operations/operation_list.h"

namespace cohort {
namespace {

// A function that computes in floats; integers become floats.
LayerClass OfFloats(std::string_view name, std::string_view doc, Expr (*f)(Expr x)) {
  return Operation(name, doc, {"x"}, {},
                   [f](LayerContext* context) -> MadeOutput { return f(FloatsOf(*context, "x")); });
}

// Integers remain integers.
LayerClass OfNumbers(std::string_view name, std::string_view doc, Expr (*f)(Expr x)) {
  return Operation(name, doc, {"x"}, {}, [f](LayerContext* context) -> MadeOutput {
    const Expr x[] = {context->inputs[0].value};
    return Arithmetic(x, [f](std::span<const Expr> values) { return f(values[0]); });
  });
}

constexpr std::string_view kBoth[] = {"x1", "x2"};

std::vector<Argument> BothArguments() { return {NumberArgument("x1"), NumberArgument("x2")}; }

LayerClass OfTwo(std::string_view name, std::string_view doc, Expr (*f)(Expr a, Expr b)) {
  return Operation(
      name, doc, {"x1", "x2"}, BothArguments(), [f](LayerContext* context) -> MadeOutput {
        COHORT_ASSIGN_OR_RETURN(const auto both, Operands(*context, kBoth));
        return Arithmetic(both,
                          [f](std::span<const Expr> values) { return f(values[0], values[1]); });
      });
}

LayerClass OfTwoFloats(std::string_view name, std::string_view doc, Expr (*f)(Expr a, Expr b)) {
  return Operation(name, doc, {"x1", "x2"}, BothArguments(),
                   [f](LayerContext* context) -> MadeOutput {
                     COHORT_ASSIGN_OR_RETURN(const auto both, Operands(*context, kBoth));
                     return f(ToFloats(*context, both[0]), ToFloats(*context, both[1]));
                   });
}

LayerClass Comparison(std::string_view name, std::string_view doc, Expr (*f)(Expr a, Expr b)) {
  return Operation(name, doc, {"x1", "x2"}, BothArguments(),
                   [f](LayerContext* context) -> MadeOutput {
                     COHORT_ASSIGN_OR_RETURN(const auto both, Operands(*context, kBoth));
                     return f(both[0], both[1]);
                   });
}

LayerClass OfTwoBools(std::string_view name, std::string_view doc, Expr (*f)(Expr a, Expr b)) {
  return Operation(name, doc, {"x1", "x2"}, {}, [f](LayerContext* context) -> MadeOutput {
    if (context->inputs.size() != 2) return InvalidArgument("it takes two inputs");
    return f(ToBools(context->inputs[0].value), ToBools(context->inputs[1].value));
  });
}

Expr FloorDivide(Expr a, Expr b) { return Floor(a / b); }
Expr Mod(Expr a, Expr b) { return a - b * Floor(a / b); }
Expr PowerOf(Expr a, Expr b) { return Pow(a, b); }

Expr DivideNoNan(Expr a, Expr b) {
  const Expr is_zero = Equal(b, NumberLike(b, 0));
  return Select(is_zero, NumberLike(a, 0), a / Select(is_zero, NumberLike(b, 1), b));
}

Expr LogAddExp(Expr a, Expr b) { return Maximum(a, b) + Softplus(-Abs(a - b)); }

Expr Arcsin(Expr x) { return Atan(x / (1.0 + Sqrt((1.0 - x) * (1.0 + x)))) * 2.0; }
Expr Arccos(Expr x) { return Atan(Sqrt(1.0 - x) / Sqrt(1.0 + x)) * 2.0; }

// By the quotient that is at most 1.
Expr Arctan2(Expr y, Expr x) {
  const auto number = [&](double value) { return NumberLike(x, value); };
  const Expr zero = number(0), one = number(1);
  const Expr of_x = Select(Equal(x, zero), one, x), of_y = Select(Equal(y, zero), one, y);
  const Expr below = Less(y, zero);
  const Expr turn = Select(below, number(-std::numbers::pi), number(std::numbers::pi));
  const Expr flat = Atan(y / of_x) + Select(Less(x, zero), turn, zero);
  return Select(GreaterEqual(Abs(x), Abs(y)), flat, turn * 0.5 - Atan(x / of_y));
}

// It takes |x|, whose sum with the root loses no digits.
Expr Arcsinh(Expr x) {
  const Expr sign = Select(Less(x, NumberLike(x, 0)), NumberLike(x, -1), NumberLike(x, 1));
  const Expr square = Square(x);
  return sign * Log1p(sign * x + square / (1.0 + Sqrt(square + 1.0)));
}

Expr Arccosh(Expr x) {
  const Expr above = x - 1.0;
  return Log1p(above + Sqrt(above * (x + 1.0)));
}

Expr Arctanh(Expr x) { return (Log1p(x) - Log1p(-x)) * 0.5; }

std::vector<LayerClass> Arithmetics() {
  return {
      OfTwo("add", "x1 + x2", [](Expr a, Expr b) { return a + b; }),
      OfTwo("subtract", "x1 - x2", [](Expr a, Expr b) { return a - b; }),
      OfTwo("multiply", "x1 x2", [](Expr a, Expr b) { return a * b; }),
      OfTwoFloats("divide", "x1 / x2", [](Expr a, Expr b) { return a / b; }),
      OfTwoFloats("true_divide", "x1 / x2", [](Expr a, Expr b) { return a / b; }),
      OfTwoFloats("divide_no_nan", "x1 / x2, and 0 where x2 is 0", DivideNoNan),
      OfTwo("floor_divide", "The largest integer that is not above x1 / x2.", FloorDivide),
      OfTwo("mod", "x1 - x2 floor(x1 / x2)", Mod),
      OfTwo("power", "x1 to the power of x2.", PowerOf),
      OfTwo("maximum", "The greater one.", Maximum),
      OfTwo("minimum", "The smaller one.", Minimum),
      OfTwoFloats("arctan2", "The angle of the point (x2, x1), between -pi and pi.", Arctan2),
      OfTwoFloats("logaddexp", "log(exp(x1) + exp(x2))", LogAddExp),
      Comparison("equal", "x1 = x2, as bool.", Equal),
      Comparison("not_equal", "The opposite of equal.",
                 [](Expr a, Expr b) { return LogicalNot(Equal(a, b)); }),
      Comparison("greater", "x1 > x2, as bool.", Greater),
      Comparison("greater_equal", "x1 >= x2, as bool.", GreaterEqual),
      Comparison("less", "x1 < x2, as bool.", Less),
      Comparison("less_equal", "x1 <= x2, as bool.",
                 [](Expr a, Expr b) { return GreaterEqual(b, a); }),
      OfTwoBools("logical_and", "Both are not 0.", LogicalAnd),
      OfTwoBools("logical_or", "One of them is not 0.", LogicalOr),
      OfTwoBools(
          "logical_xor", "One of them is not 0, and the other one is.",
          [](Expr a, Expr b) { return LogicalAnd(LogicalOr(a, b), LogicalNot(LogicalAnd(a, b))); }),
  };
}

std::vector<LayerClass> Functions() {
  return {
      OfNumbers("absolute", "|x|", Abs),
      OfNumbers("abs", "|x|", Abs),
      OfNumbers("negative", "-x", [](Expr x) { return -x; }),
      OfNumbers("square", "x x", Square),
      OfNumbers("sign", "1, 0 or -1.", Sign),
      OfNumbers("floor", "The largest integer that is not above x.", Floor),
      OfNumbers("ceil", "The smallest integer that is not below x.",
                [](Expr x) { return -Floor(-x); }),
      OfNumbers("trunc", "x without what follows the point.",
                [](Expr x) { return Sign(x) * Floor(Abs(x)); }),
      OfFloats("sqrt", "The square root.", Sqrt),
      OfFloats("rsqrt", "1 / sqrt(x)", Rsqrt),
      OfFloats("reciprocal", "1 / x", [](Expr x) { return 1.0 / x; }),
      OfFloats("exp", "e to the power of x.", Exp),
      OfFloats("exp2", "2 to the power of x.", [](Expr x) { return Exp(x * std::numbers::ln2); }),
      OfFloats("expm1", "exp(x) - 1", Expm1),
      OfFloats("log", "The natural logarithm.", Log),
      OfFloats("log1p", "log(1 + x)", Log1p),
      OfFloats("log2", "The logarithm of base 2.",
               [](Expr x) { return Log(x) / std::numbers::ln2; }),
      OfFloats("log10", "The logarithm of base 10.",
               [](Expr x) { return Log(x) / std::numbers::ln10; }),
      OfFloats("sin", "The sine.", Sin),
      OfFloats("cos", "The cosine.", Cos),
      OfFloats("tan", "The tangent.", [](Expr x) { return Sin(x) / Cos(x); }),
      OfFloats("arctan", "The inverse of the tangent.", Atan),
      OfFloats("arcsin", "The inverse of the sine.", Arcsin),
      OfFloats("arccos", "The inverse of the cosine.", Arccos),
      OfFloats("arcsinh", "The inverse of sinh.", Arcsinh),
      OfFloats("arccosh", "The inverse of cosh.", Arccosh),
      OfFloats("arctanh", "The inverse of tanh.", Arctanh),
      OfFloats("sinh", "The hyperbolic sine.", [](Expr x) { return (Exp(x) - Exp(-x)) * 0.5; }),
      OfFloats("cosh", "The hyperbolic cosine.", [](Expr x) { return (Exp(x) + Exp(-x)) * 0.5; }),
      OfFloats("tanh", "The hyperbolic tangent.", Tanh),
      OfFloats("erf", "The error function.", Erf),
      OfFloats("isnan", "True where x is NaN.", [](Expr x) { return LogicalNot(Equal(x, x)); }),
      OfFloats("isfinite", "x is a finite number, as bool.",
               [](Expr x) { return Equal(x - x, NumberLike(x, 0)); }),
      Operation("logical_not", "x is 0, as bool.", {"x"}, {},
                [](LayerContext* context) -> MadeOutput {
                  return LogicalNot(ToBools(context->inputs[0].value));
                }),
      Operation("stop_gradient", "x, through which no gradient flows.", {"variable"}, {},
                [](LayerContext* context) -> MadeOutput {
                  const Expr x = context->inputs[0].value;
                  return x.valid() && IsFloating(x.dtype()) ? StopGradient(x) : x;
                }),
      Operation("round", "The nearest integer; of two the even one.", {"x"},
                {Int("decimals", "Digits after the point that remain.").Default(0)},
                [](LayerContext* context) -> MadeOutput {
                  const double scale = std::pow(10.0, context->config.Int("decimals"));
                  const Expr x = FloatsOf(*context, "x");
                  return scale == 1 ? Round(x) : Round(x * scale) / scale;
                }),
  };
}

MadeOutput Where(LayerContext* context) {
  const LayerOutput* const condition = context->Named("condition");
  if (condition == nullptr) return InvalidArgument("its argument condition must be an input");
  constexpr std::string_view kNames[] = {"x1", "x2"};
  COHORT_ASSIGN_OR_RETURN(const auto both, Operands(*context, kNames));
  const Expr is_true = ToBools(condition->value);
  return Arithmetic(both, [is_true](std::span<const Expr> values) {
    return Select(is_true, values[0], values[1]);
  });
}

MadeOutput ClipTo(LayerContext* context) {
  const double min = context->config.Float("x_min"), max = context->config.Float("x_max");
  const Expr x[] = {context->inputs[0].value};
  return Arithmetic(x, [&](std::span<const Expr> values) { return Clip(values[0], min, max); });
}

// Floats of any width are the job's.
MadeOutput CastTo(LayerContext* context) {
  const Expr x = context->inputs[0].value;
  const std::string& dtype = context->config.String("dtype");
  if (dtype.empty()) return x;
  if (dtype == "bool") return ToBools(x);
  const bool is_integer = dtype.starts_with("int") || dtype.starts_with("uint");
  return Cast(x, is_integer ? DType::kInt64 : context->floatx);
}

Argument DTypeArgument() {
  return String("dtype", "Floats are those of the job, and integers int64.")
      .OneOf({"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64",
              "uint8", "uint16", "uint32", "bool"});
}

LayerClass Filled(std::string_view name, std::string_view doc, double value) {
  return Operation(name, doc, {"x"}, {DTypeArgument().Optional()},
                   [value](LayerContext* context) -> MadeOutput {
                     const Expr x = context->inputs[0].value;
                     if (!x.valid()) return LayerOutput{};
                     const Expr like = x.dtype() == DType::kBool ? Cast(x, DType::kInt64) : x;
                     context->inputs[0] = BroadcastLike(NumberLike(like, value), like);
                     return CastTo(context);
                   });
}

std::vector<LayerClass> Others() {
  return {
      Operation("where", "x1 where the condition is not 0, else x2.", {"condition", "x1", "x2"},
                {NumberArgument("x1"), NumberArgument("x2")}, Where),
      Operation("clip", "x between x_min and x_max.", {"x"},
                {Float("x_min", "The least value."), Float("x_max", "The largest value.")}, ClipTo),
      Operation("cast", "x in another type.", {"x"}, {DTypeArgument()}, CastTo),
      Operation("convert_to_tensor", "x, in another type if there is one.", {"x"},
                {DTypeArgument().Optional(), Planned("sparse"), Planned("ragged")}, CastTo),
      Filled("zeros_like", "Zeros.", 0),
      Filled("ones_like", "Ones.", 1),
      Operation("full_like", "A value for all elements.", {"x", "fill_value"},
                {Float("fill_value", "The value."), DTypeArgument().Optional()},
                [](LayerContext* context) -> MadeOutput {
                  const Expr x = ToFloats(*context, context->inputs[0].value);
                  return BroadcastLike(NumberLike(x, context->config.Float("fill_value")), x);
                }),
  };
}

// Activations that are no functions of keras.ops, or are among those of NumPy.
constexpr std::string_view kOtherActivations[] = {"exponential", "linear", "mish", "tanh"};

// The activations of this name, whose arguments are those of the function.
std::vector<LayerClass> ActivationsAsOperations() {
  std::vector<LayerClass> all;
  for (const ClassSchema* schema : Activations().Schemas()) {
    if (std::ranges::count(kOtherActivations, schema->name) > 0) continue;
    const ActivationClass* const activation = *Activations().Find(schema->name);
    std::vector<Argument> arguments = schema->arguments;
    for (Argument& argument : arguments) {
      // keras.ops.gelu has another default than keras.activations.gelu.
      if (argument.name == "approximate") argument = std::move(argument).Default(true);
    }
    LayerClass made =
        Operation(schema->name, schema->doc, {"x"}, std::move(arguments),
                  [activation](LayerContext* context) -> MadeOutput {
                    return activation->apply(context->config, FloatsOf(*context, "x"));
                  });
    for (const std::string& alias : schema->aliases) {
      made.schema.aliases.push_back(fmt::format("{}{}", kOperationPrefix, alias));
    }
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace

std::vector<LayerClass> ElementwiseOperations() {
  std::vector<LayerClass> all;
  for (auto group : {Arithmetics, Functions, Others, ActivationsAsOperations}) {
    for (LayerClass& made : group()) all.push_back(std::move(made));
  }
  return all;
}

}  // namespace cohort
