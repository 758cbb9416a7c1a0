// Activations (keras/src/activations/activations.py).
#include "common/model/activations.h"

#include <cmath>
#include <numbers>

#include "common/graph/expr.h"
#include "common/model/activation_functions.h"

namespace cohort {
namespace {

using Made = absl::StatusOr<LayerOutput>;

ActivationClass Plain(std::string_view name, std::string_view doc, Expr (*f)(Expr x),
                      std::vector<std::string> aliases = {}) {
  return {{std::string(name), std::move(aliases), std::string(doc), {}},
          [f](const Config&, Expr x) -> Made { return f(x); }};
}

// With one number as its argument.
ActivationClass WithNumber(std::string_view name, std::string_view doc, Argument argument,
                           Expr (*f)(Expr x, double number)) {
  const std::string number = argument.name;
  return {{std::string(name), {}, std::string(doc), {std::move(argument)}},
          [f, number](const Config& config, Expr x) -> Made { return f(x, config.Float(number)); }};
}

// Along an axis.
ActivationClass OverAxis(std::string_view name, std::string_view doc,
                         Made (*f)(Expr x, int64_t axis)) {
  return {{std::string(name), {}, std::string(doc), {AxisArgument()}},
          [f](const Config& config, Expr x) -> Made { return f(x, config.Int("axis")); }};
}

std::vector<ActivationClass> Piecewise() {
  return {
      {{"relu",
        {},
        "max(x, 0)",
        {Float("negative_slope", "Slope below the threshold.").Default(0.0),
         Float("max_value", "Largest value; none: no limit.").Optional(),
         Float("threshold", "The value below which x counts as 0.").Default(0.0)}},
       [](const Config& config, Expr x) -> Made { return ReluWith(x, ReluOptionsOf(config)); }},
      WithNumber("leaky_relu", "x, and negative_slope x below 0",
                 Float("negative_slope", "Slope below 0.").Default(0.2), LeakyRelu),
      Plain("relu6", "x between 0 and 6", [](Expr x) { return Clip(x, 0, 6); }),
      Plain("hard_sigmoid", "(x + 3) / 6 between 0 and 1", HardSigmoid),
      Plain("hard_sigmoid_of_keras_2", "x / 5 + 1 / 2 between 0 and 1",
            [](Expr x) { return Clip(x * 0.2 + 0.5, 0, 1); }),
      Plain("hard_silu", "x hard_sigmoid(x)", [](Expr x) { return x * HardSigmoid(x); },
            {"hard_swish"}),
      Plain("hard_tanh", "x between -1 and 1", [](Expr x) { return Clip(x, -1, 1); }),
      WithNumber("hard_shrink", "x, and 0 where |x| is at most the threshold",
                 Float("threshold", "The threshold.").Default(0.5), HardShrink),
      WithNumber("soft_shrink", "x moved towards 0 by the threshold",
                 Float("threshold", "The threshold.").Default(0.5), SoftShrink),
      Plain("sparse_plus", "0 up to -1, x from 1, and (x + 1)^2 / 4 between", SparsePlus),
      Plain("sparse_sigmoid", "(x + 1) / 2 between 0 and 1",
            [](Expr x) { return Clip((x + 1.0) * 0.5, 0, 1); }),
      {{"threshold",
        {},
        "x above the threshold, else default_value",
        {Float("threshold", "The threshold."),
         Float("default_value", "The value up to the threshold.")}},
       [](const Config& config, Expr x) -> Made {
         const auto number = [&](const char* name) {
           return x.builder()->Scalar(config.Float(name), x.dtype());
         };
         return Select(Greater(x, number("threshold")), x, number("default_value"));
       }},
  };
}

std::vector<ActivationClass> Smooth() {
  return {
      {{"linear", {}, "x", {}}, [](const Config&, Expr x) -> Made { return x; }},
      {{"sigmoid", {}, "1 / (1 + exp(-x))", {}},
       [](const Config&, Expr x) -> Made {
         return LayerOutput{Sigmoid(x), x};
       }},
      Plain("tanh", "The hyperbolic tangent.", Tanh),
      Plain("exponential", "exp(x)", Exp),
      Plain("softplus", "log(1 + exp(x))", Softplus),
      Plain("softsign", "x / (1 + |x|)", [](Expr x) { return x / (1.0 + Abs(x)); }),
      WithNumber("squareplus", "(x + sqrt(x^2 + b)) / 2",
                 Float("b", "The smoothness.").Default(4.0),
                 [](Expr x, double b) { return (x + Sqrt(Square(x) + b)) * 0.5; }),
      WithNumber("elu", "x, and alpha (exp(x) - 1) below 0",
                 Float("alpha", "The limit below, negated.").Default(1.0), Elu),
      WithNumber("celu", "max(x, 0) + alpha (exp(min(x, 0) / alpha) - 1)",
                 Float("alpha", "The limit below, negated.").Default(1.0), Celu),
      Plain("selu", "1.0507 elu(x, 1.6733)", Selu),
      Plain("silu", "x sigmoid(x)", [](Expr x) { return x * Sigmoid(x); }, {"swish"}),
      Plain("mish", "x tanh(softplus(x))", [](Expr x) { return x * Tanh(Softplus(x)); }),
      {{"gelu",
        {},
        "x P(X <= x) for a standard normal X",
        {Bool("approximate", "True: by tanh instead of erf.").Default(false)}},
       [](const Config& config, Expr x) -> Made { return Gelu(x, config.Bool("approximate")); }},
      Plain("tanh_shrink", "x - tanh(x)", [](Expr x) { return x - Tanh(x); }),
      Plain("log_sigmoid", "log(sigmoid(x))", [](Expr x) { return -Softplus(-x); }),
  };
}

std::vector<ActivationClass> AlongAnAxis() {
  return {
      OverAxis("softmax", "exp(x), divided by its sum over the axis",
               [](Expr x, int64_t axis) { return SoftmaxOver(x, {axis}); }),
      OverAxis("log_softmax", "log(softmax(x))",
               [](Expr x, int64_t axis) { return OverLastAxis(x, {axis}, LogSoftmax); }),
      OverAxis("sparsemax", "max(x - t, 0), with the t that makes the sum over the axis 1",
               [](Expr x, int64_t axis) { return OverLastAxis(x, {axis}, Sparsemax); }),
      OverAxis("glu", "The first half of the axis times the sigmoid of the second one.",
               GatedLinearUnit),
  };
}

std::vector<ActivationClass> ActivationClasses() {
  std::vector<ActivationClass> all;
  for (auto group : {Piecewise, Smooth, AlongAnAxis}) {
    for (ActivationClass& activation : group()) all.push_back(std::move(activation));
  }
  return all;
}

}  // namespace

ClassRegistry<ActivationClass>& Activations() {
  static auto& activations = *new ClassRegistry<ActivationClass>(
      "activation", SchemaSet::Spelling::kExact, "", ActivationClasses());
  return activations;
}

const SchemaSet& ActivationSchemas() { return Activations(); }

absl::StatusOr<LayerOutput> Activate(const v1::ClassConfig& config, LayerOutput x) {
  COHORT_ASSIGN_OR_RETURN(const ActivationClass* activation,
                          Activations().Find(config.class_name()));
  if (!x.value.valid() || config.class_name() == "linear") return x;
  return activation->apply(Config(config), x.value);
}

}  // namespace cohort
