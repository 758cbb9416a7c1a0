// The metrics that are the mean of a loss (keras/src/metrics: probabilistic_metrics.py,
// hinge_metrics.py, regression_metrics.py).
#include "common/model/losses/loss.h"
#include "common/model/metrics/metric.h"

namespace cohort {
namespace {

// `loss`: its class. The arguments that are not those of every metric are the loss's.
absl::StatusOr<MetricValue> MeanOfLoss(std::string_view loss, const std::vector<std::string>& names,
                                       const Config& config, const MetricInput& input) {
  v1::ClassConfig given;
  given.set_class_name(std::string(loss));
  for (const std::string& name : names) (*given.mutable_config())[name] = config.Value(name);
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig complete, CompleteConfig(Losses(), given));
  COHORT_ASSIGN_OR_RETURN(const LossElements elements,
                          ElementwiseLoss(complete, input.prediction, input.label));
  COHORT_ASSIGN_OR_RETURN(const Expr weight, WeightWithoutMasked(input));
  // Without weights Keras counts the elements of `ignore_class`, too.
  if (!weight.valid() || !elements.mask.valid()) return WeightedMean(elements.values, weight);
  COHORT_ASSIGN_OR_RETURN(const Expr each, WeightLike(weight, elements.values));
  return WeightedMean(elements.values, each * elements.mask);
}

MetricClass MakeMean(std::string_view name, std::string_view loss, std::vector<std::string> aliases,
                     std::string_view doc, std::vector<Argument> arguments = {},
                     std::string_view default_name = "") {
  std::vector<std::string> names;
  for (const Argument& argument : arguments) {
    if (!argument.planned) names.push_back(argument.name);
  }
  return {.schema = MetricSchema(name, std::move(aliases), doc, std::move(arguments), default_name),
          .make = [loss, names = std::move(names)](const Config& config, const MetricInput& input) {
            return MeanOfLoss(loss, names, config, input);
          }};
}

}  // namespace

MetricClass BinaryCrossentropyMetric() {
  return MakeMean("BinaryCrossentropy", "BinaryCrossentropy", {"bce", "BCE"},
                  "Mean cross entropy of labels 0 and 1.",
                  {FromLogitsArgument(), LabelSmoothingArgument()});
}

// The string "crossentropy", which is no class of Keras.
MetricClass ChosenCrossentropyMetric() {
  return MakeMean("crossentropy", "crossentropy", {"ce", "CE", "Crossentropy", "CrossEntropy"},
                  "BinaryCrossentropy, CategoricalCrossentropy or SparseCategoricalCrossentropy, "
                  "by the shapes of label and prediction.",
                  {FromLogitsArgument()});
}

MetricClass CategoricalCrossentropyMetric() {
  return MakeMean("CategoricalCrossentropy", "CategoricalCrossentropy", {},
                  "Mean cross entropy of one-hot labels.",
                  {FromLogitsArgument(), LabelSmoothingArgument(), LastAxisArgument()});
}

MetricClass SparseCategoricalCrossentropyMetric() {
  return MakeMean("SparseCategoricalCrossentropy", "SparseCategoricalCrossentropy", {},
                  "Mean cross entropy of class numbers.",
                  {FromLogitsArgument(),
                   Int("ignore_class", "A class number whose rows have the loss 0.").Optional(),
                   LastAxisArgument()});
}

MetricClass KLDivergenceMetric() {
  return MakeMean("KLDivergence", "KLDivergence", {"kld", "KLD", "kullback_leibler_divergence"},
                  "Mean Kullback-Leibler divergence of label and prediction.");
}

MetricClass PoissonMetric() { return MakeMean("Poisson", "Poisson", {}, "Mean Poisson loss."); }

MetricClass HingeMetric() { return MakeMean("Hinge", "Hinge", {}, "Mean hinge loss."); }

MetricClass SquaredHingeMetric() {
  return MakeMean("SquaredHinge", "SquaredHinge", {}, "Mean squared hinge loss.");
}

MetricClass CategoricalHingeMetric() {
  return MakeMean("CategoricalHinge", "CategoricalHinge", {}, "Mean categorical hinge loss.");
}

MetricClass LogCoshErrorMetric() {
  return MakeMean("LogCoshError", "LogCosh", {},
                  "Mean logarithm of the hyperbolic cosine of the error.", {}, "logcosh");
}

MetricClass MeanAbsolutePercentageErrorMetric() {
  return MakeMean("MeanAbsolutePercentageError", "MeanAbsolutePercentageError", {"mape", "MAPE"},
                  "Mean absolute error in percent of the label.");
}

MetricClass MeanSquaredLogarithmicErrorMetric() {
  return MakeMean("MeanSquaredLogarithmicError", "MeanSquaredLogarithmicError", {"msle", "MSLE"},
                  "Mean squared difference of logarithms.");
}

}  // namespace cohort
