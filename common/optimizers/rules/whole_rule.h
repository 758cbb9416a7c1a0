#ifndef COHORT_COMMON_OPTIMIZERS_RULES_WHOLE_RULE_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_WHOLE_RULE_H_

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/optimizers/rules/rule.h"
#include "common/optimizers/vector_loops.h"

namespace cohort {

// A variable in place, with what a rule of whole variables needs in one step.
template <typename T>
struct WholeUpdate {
  std::span<T> variable;  // after weight decay
  T* slots[kMaxSlots] = {};
  std::span<const T> gradient;  // that of the mean loss
  uint64_t step = 0;
  T learning_rate = 0;
};

// What the rules that work on whole variables have in common. The *family* of a rule has
//
//   std::vector<SlotInfo> Slots() const;
//   template <typename T> void Update(const WholeUpdate<T>& update) const;
//
// Rows without a gradient have a gradient of zeros.
template <typename Family>
class WholeRule : public OptimizerRule {
 public:
  WholeRule(Family family, double weight_decay, const RuleSettings& settings)
      : family_(std::move(family)),
        slots_(family_.Slots()),
        schedule_(settings.schedule),
        weight_decay_(weight_decay) {}

  std::span<const SlotInfo> slots() const override { return slots_; }
  UpdateScope scope() const override { return UpdateScope::kVariable; }
  bool touches_only_keys() const override { return false; }
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
  void Dense(const DenseUpdate& u) const {
    std::vector<T> gradient(static_cast<size_t>(u.elements));
    if (u.weight != 0) {
      std::memcpy(gradient.data(), u.gradient, gradient.size() * sizeof(T));
      if (u.non_finite != nullptr && AnyNonFinite(gradient.data(), gradient.size())) {
        *u.non_finite = true;
      }
      const T scale = static_cast<T>(1 / u.weight);
      for (T& g : gradient) g *= scale;
    }
    Apply<T>(u.target, u.step, gradient);
  }

  template <typename T>
  void Rows(const RowsUpdate& u) const {
    std::vector<T> gradient(static_cast<size_t>(u.rows * u.row_elements));
    const auto n = static_cast<size_t>(u.row_elements);
    const T scale = u.weight == 0 ? T(0) : static_cast<T>(1 / u.weight);
    for (size_t k = 0; k < u.keys.size() && u.weight != 0; ++k) {
      T* const row = gradient.data() + static_cast<size_t>(u.keys[k] - u.first_row) * n;
      std::memcpy(row, static_cast<const T*>(u.gradient) + k * n, n * sizeof(T));
      for (size_t i = 0; i < n; ++i) row[i] *= scale;
    }
    Apply<T>(u.target, u.step, gradient);
  }

  template <typename T>
  void Apply(const UpdateTarget& target, uint64_t step, std::span<const T> gradient) const {
    const auto range = RangeOf<T>(target, slots_.size(), 0, static_cast<int64_t>(gradient.size()));
    CopyRange(range, slots_.size());
    WholeUpdate<T> update{.variable = {range.variable_out, gradient.size()},
                          .gradient = gradient,
                          .step = step,
                          .learning_rate = static_cast<T>(LearningRate(step))};
    for (size_t s = 0; s < slots_.size(); ++s) update.slots[s] = range.slots_out[s];
    const T decay = CastAsKeras<T>(weight_decay_);
    if (decay != 0) {
      for (T& w : update.variable) w = w - w * decay * update.learning_rate;
    }
    family_.template Update<T>(update);
  }

  const Family family_;
  const std::vector<SlotInfo> slots_;
  const LearningRateSchedule schedule_;
  const double weight_decay_;
};

// The sum of squares, in float64.
template <typename T>
double SquareSum(std::span<const T> values) {
  double sum = 0;
  for (const T value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_WHOLE_RULE_H_
