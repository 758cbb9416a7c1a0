// Orthogonal steps of matrices: keras/src/optimizers/muon.py.
#include <re2/re2.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "common/base/status.h"
#include "common/optimizers/rules/whole_rule.h"
#include "common/optimizers/vector_loops.h"

namespace cohort {
namespace {

// Adam as Muon has it: with a rate and a decay of its own.
class MuonAdam {
 public:
  explicit MuonAdam(const Config& config)
      : beta_1_(config.Float("adam_beta_1")),
        beta_2_(config.Float("adam_beta_2")),
        epsilon_(config.Float("epsilon")),
        ratio_(config.Float("adam_lr_ratio")) {}

  std::vector<SlotInfo> Slots() const { return {{"momentum", 0}, {"velocity", 0}}; }
  bool moves_all_rows() const { return true; }
  template <typename T>
  AdamUpdate<T> At(uint64_t step, T learning_rate, T weight_decay) const {
    const T t = static_cast<T>(step + 1);
    const T power_1 = std::pow(CastAsKeras<T>(beta_1_), t);
    const T power_2 = std::pow(CastAsKeras<T>(beta_2_), t);
    const T rate = learning_rate * static_cast<T>(ratio_);
    return {learning_rate,
            weight_decay,
            rate * std::sqrt(1 - power_2) / (1 - power_1),
            static_cast<T>(1 - beta_1_),
            static_cast<T>(1 - beta_2_),
            static_cast<T>(epsilon_),
            false};
  }

 private:
  double beta_1_, beta_2_, epsilon_, ratio_;
};

// A matrix: momentum, made orthogonal by the iteration of Newton and Schulz.
class MuonMatrix {
 public:
  MuonMatrix(const Config& config, size_t rows, size_t columns)
      : a_(config.Float("muon_a")),
        b_(config.Float("muon_b")),
        c_(config.Float("muon_c")),
        momentum_(config.Float("momentum")),
        rms_rate_(config.IsNone("rms_rate") ? 0 : config.Float("rms_rate")),
        has_rms_rate_(!config.IsNone("rms_rate")),
        nesterov_(config.Bool("nesterov")),
        steps_(config.Int("ns_steps")),
        rows_(rows),
        columns_(columns) {}

  std::vector<SlotInfo> Slots() const { return {{"momentum", 0}}; }
  template <typename T>
  void Update(const WholeUpdate<T>& u) const {
    const T decay = static_cast<T>(momentum_ - 1), momentum = static_cast<T>(momentum_);
    std::vector<T> x(u.variable.size());
    for (size_t i = 0; i < x.size(); ++i) {
      T& m = u.slots[0][i];
      m = m + (u.gradient[i] + m * decay);
      x[i] = nesterov_ ? u.gradient[i] + momentum * m : m;
    }
    Orthogonalize(&x);
    T scale = 1;
    if (has_rms_rate_) scale = std::sqrt(static_cast<T>(std::max(rows_, columns_)));
    for (size_t i = 0; i < x.size(); ++i) {
      T change = u.learning_rate * x[i];
      if (has_rms_rate_) change = change * scale * static_cast<T>(rms_rate_);
      u.variable[i] = u.variable[i] - change;
    }
  }

 private:
  template <typename T>
  static std::vector<T> Transposed(const std::vector<T>& x, size_t rows, size_t columns) {
    std::vector<T> y(x.size());
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < columns; ++j) y[j * rows + i] = x[i * columns + j];
    }
    return y;
  }

  // The wide one of the matrix and its transpose is iterated: its products are smaller.
  template <typename T>
  void Orthogonalize(std::vector<T>* matrix) const {
    const bool tall = rows_ > columns_;
    const size_t m = std::min(rows_, columns_), n = std::max(rows_, columns_);
    std::vector<T> x = tall ? Transposed(*matrix, rows_, columns_) : std::move(*matrix);
    const T divisor =
        static_cast<T>(std::sqrt(SquareSum(std::span<const T>(x)))) + static_cast<T>(1e-7);
    for (T& value : x) value /= divisor;
    std::vector<T> square(m * m), polynomial(m * m), next(m * n);
    const T a = static_cast<T>(a_), b = static_cast<T>(b_), c = static_cast<T>(c_);
    for (int64_t step = 0; step < steps_; ++step) {
      const std::vector<T> transposed = Transposed(x, m, n);
      MultiplyMatrices(x.data(), transposed.data(), square.data(), m, n, m);
      MultiplyMatrices(square.data(), square.data(), polynomial.data(), m, m, m);
      for (size_t i = 0; i < square.size(); ++i) {
        polynomial[i] = b * square[i] + c * polynomial[i];
      }
      MultiplyMatrices(polynomial.data(), x.data(), next.data(), m, m, n);
      for (size_t i = 0; i < x.size(); ++i) x[i] = a * x[i] + next[i];
    }
    *matrix = tall ? Transposed(x, n == 0 ? 0 : m, n) : std::move(x);
  }

  double a_, b_, c_, momentum_, rms_rate_;
  bool has_rms_rate_, nesterov_;
  int64_t steps_;
  size_t rows_, columns_;
};

absl::Status CheckMuon(const Config& config) {
  for (const std::string& pattern : config.Strings("exclude_layers")) {
    const RE2 expression(pattern, RE2::Quiet);
    if (expression.ok()) continue;
    return InvalidArgument("Muon: exclude_layers: \"{}\" is no regular expression: {}",
                           pattern.substr(0, 60), expression.error());
  }
  return absl::OkStatus();
}

bool UsesAdam(const Config& config, const RuleSettings& settings) {
  if (settings.dims.size() != 2) return true;
  std::string lower = settings.variable;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (config.Bool("exclude_embeddings") && lower.find("embedding") != std::string::npos) {
    return true;
  }
  const std::vector<std::string> patterns = config.Strings("exclude_layers");
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return RE2::PartialMatch(settings.variable, pattern);
  });
}

std::unique_ptr<OptimizerRule> MakeMuon(const Config& config, const RuleSettings& settings) {
  if (UsesAdam(config, settings)) {
    return std::make_unique<ElementwiseRule<MuonAdam>>(MuonAdam(config),
                                                       config.Float("adam_weight_decay"), settings);
  }
  return std::make_unique<WholeRule<MuonMatrix>>(
      MuonMatrix(config, static_cast<size_t>(settings.dims[0]),
                 static_cast<size_t>(settings.dims[1])),
      config.Float("weight_decay"), settings);
}

Argument DecayOrNone(std::string_view name, std::string_view doc) {
  return Float(name, doc).Default(0.004).OrNone().Between(0, kMostHyperparameter);
}

}  // namespace

OptimizerClass MuonOptimizer() {
  return {
      .schema =
          {.name = "Muon",
           .doc = "Orthogonal steps of matrices; AdamW for embeddings and what is no matrix.",
           .arguments = WithBaseArguments(
               {LearningRateArgument(0.001),
                BetaArgument("adam_beta_1", 0.9, "Adam's decay of the mean of gradients."),
                BetaArgument("adam_beta_2", 0.999, "Adam's decay of the mean of squares."),
                DecayOrNone("adam_weight_decay", "Decay of the weights that Adam updates."),
                EpsilonArgument(),
                DecayOrNone("weight_decay", "Decay of matrices per step, times the learning rate."),
                Strings("exclude_layers",
                        "Regular expressions: Adam updates variables whose name has a match.")
                    .Optional(),
                Bool("exclude_embeddings", "Adam updates what is named embedding.").Default(true),
                Float("muon_a", "Factor of x in the iteration.").Default(3.4445),
                Float("muon_b", "Factor of x x' x.").Default(-4.7750),
                Float("muon_c", "Factor of x x' x x' x.").Default(2.0315),
                Float("adam_lr_ratio", "Adam's learning rate, as a multiple.").Default(1),
                Float("momentum", "Share of the momentum that stays.").Default(0.95).Between(0, 1),
                Int("ns_steps", "Steps of the iteration.").Default(5).Between(0, 1000),
                Bool("nesterov", "Nesterov's momentum.").Default(true),
                Float("rms_rate",
                      "Root mean square of a change before the rate; none: that of "
                      "orthogonal matrices.")
                    .Default(0.2)
                    .OrNone()})},
      .make = MakeMuon,
      .by_variable = true,
      .check = CheckMuon};
}

}  // namespace cohort
