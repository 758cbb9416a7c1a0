// Squares of gradients as a product of rows and columns: keras/src/optimizers/adafactor.py.
#include <algorithm>
#include <cmath>

#include "common/optimizers/rules/whole_rule.h"

namespace cohort {
namespace {

// If a variable has two axes or more, the slots are the means over the last axis ("r") and over the
// one before ("c"). A slot has the shape of the variable: r lies in the first column of each
// matrix, c in its first row. Keras' velocity, their product, is computed when it is needed.
class Adafactor {
 public:
  Adafactor(const Config& config, const RuleSettings& settings)
      : beta_2_decay_(config.Float("beta_2_decay")),
        epsilon_1_(config.Float("epsilon_1")),
        epsilon_2_(config.Float("epsilon_2")),
        clip_threshold_(config.Float("clip_threshold")),
        by_step_(config.Bool("relative_step") && !IsSchedule(config.Value("learning_rate"))),
        factored_(settings.dims.size() >= 2) {
    if (!factored_) return;
    rows_ = static_cast<size_t>(settings.dims[settings.dims.size() - 2]);
    columns_ = static_cast<size_t>(settings.dims.back());
  }

  std::vector<SlotInfo> Slots() const {
    if (!factored_) return {{"velocity", 0}};
    return {{"r", 0}, {"c", 0}};
  }

  template <typename T>
  void Update(const WholeUpdate<T>& u) const {
    if (u.variable.empty()) return;
    const T t = static_cast<T>(u.step + 1);
    const T root = T(1) / std::sqrt(t);
    const T rate = std::min(u.learning_rate, root);
    const T size = RootMeanSquare<T>(u.variable);
    // Keras takes the smaller rate twice; without relative_step the second one remains.
    const T alpha = std::max(CastAsKeras<T>(epsilon_2_), size) *
                    std::min(by_step_ ? rate : u.learning_rate, root);
    const T keep = 1 - std::pow(t, static_cast<T>(beta_2_decay_));
    std::vector<T> change(u.variable.size());
    factored_ ? ByMatrix(u, keep, &change) : ByElement(u, keep, &change);
    const T clip = std::max(T(1), RootMeanSquare<T>(change) / static_cast<T>(clip_threshold_));
    for (size_t i = 0; i < change.size(); ++i) {
      u.variable[i] = u.variable[i] - alpha * (change[i] / clip);
    }
  }

 private:
  template <typename T>
  static T RootMeanSquare(std::span<const T> values) {
    return static_cast<T>(std::sqrt(SquareSum(values) / static_cast<double>(values.size())));
  }

  template <typename T>
  void ByElement(const WholeUpdate<T>& u, T keep, std::vector<T>* change) const {
    for (size_t i = 0; i < change->size(); ++i) {
      const T g = u.gradient[i];
      T& v = u.slots[0][i];
      v = keep * v + (1 - keep) * (g * g + static_cast<T>(epsilon_1_));
      (*change)[i] = g / std::sqrt(v);
    }
  }

  template <typename T>
  void ByMatrix(const WholeUpdate<T>& u, T keep, std::vector<T>* change) const {
    const size_t matrix = rows_ * columns_;
    for (size_t begin = 0; begin + matrix <= change->size() && matrix > 0; begin += matrix) {
      const T* const g = u.gradient.data() + begin;
      T* const r = u.slots[0] + begin;
      T* const c = u.slots[1] + begin;
      std::vector<double> row(rows_), column(columns_);
      for (size_t i = 0; i < matrix; ++i) {
        const T square = g[i] * g[i] + static_cast<T>(epsilon_1_);
        row[i / columns_] += static_cast<double>(square);
        column[i % columns_] += static_cast<double>(square);
      }
      double mean = 0;
      for (size_t i = 0; i < rows_; ++i) {
        T& kept = r[i * columns_];
        kept = keep * kept + (1 - keep) * static_cast<T>(row[i] / static_cast<double>(columns_));
        mean += static_cast<double>(kept);
      }
      for (size_t i = 0; i < columns_; ++i) {
        c[i] = keep * c[i] + (1 - keep) * static_cast<T>(column[i] / static_cast<double>(rows_));
      }
      const T mean_row = static_cast<T>(mean / static_cast<double>(rows_));
      for (size_t i = 0; i < matrix; ++i) {
        const T v = r[i / columns_ * columns_] / mean_row * c[i % columns_];
        (*change)[begin + i] = g[i] / std::sqrt(v);
      }
    }
  }

  double beta_2_decay_, epsilon_1_, epsilon_2_, clip_threshold_;
  bool by_step_, factored_;
  size_t rows_ = 0, columns_ = 0;
};

std::unique_ptr<OptimizerRule> MakeAdafactor(const Config& config, const RuleSettings& settings) {
  return std::make_unique<WholeRule<Adafactor>>(Adafactor(config, settings),
                                                config.Float("weight_decay"), settings);
}

}  // namespace

OptimizerClass AdafactorOptimizer() {
  return {
      .schema =
          {.name = "Adafactor",
           .doc = "Adam without momentum, whose mean of squares is a product of rows and columns.",
           .arguments = WithBaseArguments(
               {LearningRateArgument(0.001),
                Float("beta_2_decay", "How the decay of the mean of squares rises.")
                    .Default(-0.8)
                    .Between(-kMostHyperparameter, 0),
                Float("epsilon_1", "Added to squares of gradients.")
                    .Default(1e-30)
                    .Between(0, kMostHyperparameter),
                Float("epsilon_2", "Least size of a variable, which its step has.")
                    .Default(1e-3)
                    .Between(0, kMostHyperparameter),
                Float("clip_threshold", "Most root mean square of a change before the rate.")
                    .Default(1)
                    .Between(1e-30, kMostHyperparameter),
                Bool("relative_step", "A constant rate is at most 1 / sqrt(steps).").Default(true),
                WeightDecayArgument()})},
      .make = MakeAdafactor,
      .by_variable = true,
      .is_whole = true};
}

}  // namespace cohort
