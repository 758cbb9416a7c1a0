// Adagrad with one sum for each row: EXACT_ROWWISE_ADAGRAD of FBGEMM and TorchRec
// (fbgemm_gpu/codegen/genscript/optimizers.py). It takes 1 / dim of Adagrad's memory.
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/optimizers/rules/rule.h"
#include "common/optimizers/vector_loops.h"

namespace cohort {
namespace {

template <typename T>
T Load(const T* from, int64_t i) {
  T value;
  std::memcpy(&value, from + i, sizeof(T));
  return value;
}

// The sum of the squares of a gradient without alignment. Eight partial sums, always the same ones:
// so the compiler makes vector code, and the bits are the same on each processor.
template <typename T>
T SumOfSquares(const T* gradient, T scale, int64_t n) {
  constexpr int64_t kLanes = 8;
  std::array<T, kLanes> sums = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const T g = Load(gradient, i + lane) * scale;
      sums[static_cast<size_t>(lane)] += g * g;
    }
  }
  for (; i < n; ++i) {
    const T g = Load(gradient, i) * scale;
    sums[static_cast<size_t>(i % kLanes)] += g * g;
  }
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

// For each row:
//   accumulator = accumulator + mean(g^2)
//   w = w - learning_rate * g / (sqrt(accumulator) + epsilon)
class RowwiseAdagrad : public OptimizerRule {
 public:
  RowwiseAdagrad(const Config& config, const RuleSettings& settings)
      : slots_({{.name = "accumulator",
                 .initial_value = config.Float("initial_accumulator_value"),
                 .by_row = true}}),
        schedule_(settings.schedule),
        epsilon_(config.Float("epsilon")),
        weight_decay_(config.Float("weight_decay")),
        lazy_(settings.lazy) {
    for (size_t i = 1; i < settings.dims.size(); ++i) row_elements_ *= settings.dims[i];
  }

  std::span<const SlotInfo> slots() const override { return slots_; }
  UpdateScope scope() const override { return UpdateScope::kRow; }
  bool touches_only_keys() const override { return lazy_ || weight_decay_ == 0; }
  double LearningRate(uint64_t step) const override { return schedule_(static_cast<double>(step)); }
  RuleUpdate UpdateOfStep(DType, uint64_t) const override { return {}; }

  void ApplyDense(const DenseUpdate& update) const override {
    if (update.target.dtype == DType::kFloat32) Dense<float>(update);
    if (update.target.dtype == DType::kFloat64) Dense<double>(update);
  }
  void ApplyRows(const RowsUpdate& update) const override {
    if (update.target.dtype == DType::kFloat32) Rows<float>(update);
    if (update.target.dtype == DType::kFloat64) Rows<double>(update);
  }

 private:
  template <typename T>
  struct Constants {
    T learning_rate, weight_decay, epsilon;
  };
  template <typename T>
  Constants<T> At(uint64_t step) const {
    return {static_cast<T>(LearningRate(step)), CastAsKeras<T>(weight_decay_),
            static_cast<T>(epsilon_)};
  }

  // Updates a row of n elements. Without a gradient (null) only weight decay changes it.
  template <typename T>
  static void UpdateRow(const Constants<T>& c, const T* gradient, T scale, int64_t n, const T* w_in,
                        T* w, T* accumulator) {
    T factor = 0;
    if (gradient != nullptr) {
      *accumulator += SumOfSquares(gradient, scale, n) / static_cast<T>(n);
      factor = c.learning_rate / (std::sqrt(*accumulator) + c.epsilon);
    }
    for (int64_t i = 0; i < n; ++i) {
      const T g = gradient == nullptr ? T(0) : Load(gradient, i) * scale;
      T value = w_in[i];
      if (c.weight_decay != 0) value = value - value * c.weight_decay * c.learning_rate;
      w[i] = value - factor * g;
    }
  }

  template <typename T>
  void Dense(const DenseUpdate& u) const {
    if (row_elements_ == 0) return;
    const int64_t n = row_elements_;
    const auto constants = At<T>(u.step);
    const T scale = u.weight == 0 ? T(0) : static_cast<T>(1 / u.weight);
    const auto* const gradient = u.weight == 0 ? nullptr : static_cast<const T*>(u.gradient);
    if (gradient != nullptr && u.non_finite != nullptr &&
        AnyNonFinite(gradient, static_cast<size_t>(u.elements))) {
      *u.non_finite = true;
    }
    const auto* const w_in = static_cast<const T*>(u.target.variable_in);
    auto* const w = static_cast<T*>(u.target.variable_out);
    const auto* const sums_in = static_cast<const T*>(u.target.slots_in[0]);
    auto* const sums = static_cast<T*>(u.target.slots_out[0]);
    for (int64_t row = 0; row < u.elements / n; ++row) {
      sums[row] = sums_in[row];
      UpdateRow(constants, gradient == nullptr ? nullptr : gradient + row * n, scale, n,
                w_in + row * n, w + row * n, sums + row);
    }
  }

  template <typename T>
  void Rows(const RowsUpdate& u) const {
    const int64_t n = u.row_elements;
    if (n == 0) return;
    const auto constants = At<T>(u.step);
    const T scale = u.weight == 0 ? T(0) : static_cast<T>(1 / u.weight);
    const auto* const gradient = static_cast<const T*>(u.gradient);
    const auto* const w_in = static_cast<const T*>(u.target.variable_in);
    auto* const w = static_cast<T*>(u.target.variable_out);
    const auto* const sums_in = static_cast<const T*>(u.target.slots_in[0]);
    auto* const sums = static_cast<T*>(u.target.slots_out[0]);
    const auto rows = static_cast<size_t>(u.rows);
    if (w != w_in) std::memcpy(w, w_in, rows * static_cast<size_t>(n) * sizeof(T));
    if (sums != sums_in) std::memcpy(sums, sums_in, rows * sizeof(T));
    const auto update = [&](int64_t row, const T* g) {
      UpdateRow(constants, u.weight == 0 ? nullptr : g, scale, n, w + row * n, w + row * n,
                sums + row);
    };
    if (touches_only_keys()) {
      for (size_t k = 0; k < u.keys.size(); ++k) {
        update(u.keys[k] - u.first_row, gradient + static_cast<int64_t>(k) * n);
      }
      return;
    }
    size_t key = 0;
    for (int64_t row = 0; row < u.rows; ++row) {
      const bool has_key = key < u.keys.size() && u.keys[key] - u.first_row == row;
      update(row, has_key ? gradient + static_cast<int64_t>(key) * n : nullptr);
      if (has_key) ++key;
    }
  }

  const std::vector<SlotInfo> slots_;
  const LearningRateSchedule schedule_;
  const double epsilon_, weight_decay_;
  const bool lazy_;
  int64_t row_elements_ = 1;
};

// Sums of gradients lie in a slot of their own, and its rule copies the others element by element.
absl::Status CheckRowwiseAdagrad(const Config& config) {
  if (config.IsNone("gradient_accumulation_steps")) return absl::OkStatus();
  return InvalidArgument(
      "RowwiseAdagrad: gradient_accumulation_steps needs slots of the variable's shape; use "
      "Adagrad, "
      "or leave it out");
}

}  // namespace

OptimizerClass RowwiseAdagradOptimizer() {
  return {
      .schema = {.name = "RowwiseAdagrad",
                 .doc = "Adagrad with one sum for each row, the mean of the squares of its "
                        "gradient, as EXACT_ROWWISE_ADAGRAD of FBGEMM and TorchRec. For tables of "
                        "embeddings.",
                 .arguments = WithBaseArguments(
                     {LearningRateArgument(0.001),
                      Float("initial_accumulator_value", "First value of the sums.")
                          .Default(0.0)
                          .Between(0, kMostHyperparameter),
                      Float("epsilon", "Is added to the root of a sum.")
                          .Default(1e-8)
                          .Between(0, kMostHyperparameter),
                      WeightDecayArgument()})},
      .make = [](const Config& config,
                 const RuleSettings& settings) -> std::unique_ptr<OptimizerRule> {
        return std::make_unique<RowwiseAdagrad>(config, settings);
      },
      .by_variable = true,
      .check = CheckRowwiseAdagrad};
}

}  // namespace cohort
