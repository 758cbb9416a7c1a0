#ifndef COHORT_COMMON_OPTIMIZERS_RULES_RULE_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_RULE_H_

#include <absl/status/statusor.h>

#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/optimizers/optimizer_rules.h"
#include "common/optimizers/optimizers.h"
#include "common/optimizers/rules/rule_update.h"
#include "common/optimizers/schedules/schedule.h"

namespace cohort {

// What the rules that work element by element have in common. The file of a rule defines its
// *family*, a class with the hyperparameters as doubles, and gives MakeElementwise<Family> to its
// entry:
//
//   explicit Family(const Config& config);  // complete
//   std::vector<SlotInfo> Slots() const;
//   bool moves_all_rows() const;  // a row without a gradient changes too (without weight decay)
//   // The constants of one step in the arithmetic of the variable's dtype, as Keras computes them;
//   // they include learning_rate and weight_decay.
//   template <typename T>
//   Update<T> At(uint64_t step, T learning_rate, T weight_decay) const;  // rule_update.h
//
// Loops round once per operation, in the order of Keras 3 (keras/src/optimizers). The result of an
// element never depends on its position in a range.

// For ops.cast(hyperparameter, dtype) of Keras, TensorFlow first makes a float32 tensor of the
// Python number: 0.9 becomes 0.89999998, in float64 too.
template <typename T>
T CastAsKeras(double hyperparameter) {
  return static_cast<T>(static_cast<float>(hyperparameter));
}

// Elements of a variable with their slots, in place or disjoint (see UpdateTarget).
template <typename T>
struct UpdateRange {
  const T* variable_in = nullptr;
  T* variable_out = nullptr;
  const T* slots_in[kMaxSlots] = {};
  T* slots_out[kMaxSlots] = {};
  // SlotInfo::is_bfloat16: slots point to halves, which UpdateRange's user widens. They are rounded
  // with `rounding` (RoundedBfloat16).
  bool bfloat16_slots = false;
  uint32_t rounding = 0;
  const T* gradient = nullptr;  // null: zeros. Not aligned: only for vector loads and memcpy
  T gradient_scale = 1;         // 1 / weight
  int64_t elements = 0;
  bool past_caches = false;    // UpdateTarget::past_caches
  bool* non_finite = nullptr;  // DenseUpdate::non_finite
};

// Returns elements [begin, begin + elements) of a target, without a gradient.
template <typename T>
UpdateRange<T> RangeOf(const UpdateTarget& target, size_t slots, int64_t begin, int64_t elements,
                       bool bfloat16_slots = false) {
  UpdateRange<T> range;
  range.variable_in = static_cast<const T*>(target.variable_in) + begin;
  range.variable_out = static_cast<T*>(target.variable_out) + begin;
  for (size_t i = 0; i < slots; ++i) {
    const size_t offset =
        static_cast<size_t>(begin) * (bfloat16_slots ? sizeof(uint16_t) : sizeof(T));
    const auto* const in = static_cast<const uint8_t*>(target.slots_in[i]) + offset;
    range.slots_in[i] = reinterpret_cast<const T*>(in);
    range.slots_out[i] = reinterpret_cast<T*>(static_cast<uint8_t*>(target.slots_out[i]) + offset);
  }
  range.bfloat16_slots = bfloat16_slots;
  range.elements = elements;
  range.past_caches = target.past_caches;
  return range;
}

// Some rows of a range of rows with their slots, in place.
template <typename T>
struct UpdateRows {
  T* variable = nullptr;  // the first row of the range
  T* slots[kMaxSlots] = {};
  bool bfloat16_slots = false;  // as in UpdateRange
  uint32_t rounding = 0;
  const T* gradient = nullptr;  // keys.size() rows. Not aligned
  T gradient_scale = 1;         // 1 / weight
  int64_t first_row = 0;
  int64_t row_elements = 0;
  std::span<const int64_t> keys;
};

// The upper half of a value, rounded up or down at random, so that the mean of many roundings is
// the value: a sum of squares grows although each addend is smaller than the distance of two
// halves. The draw depends on the value and on `rounding` alone, so the result is the same on any
// server. NaN stays NaN.
inline uint16_t RoundedBfloat16(float value, uint32_t rounding) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t x = bits * 0x9e3779b1u ^ rounding;
  x ^= x >> 15;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>((is_nan ? bits | 0x400000u : bits + (x >> 16)) >> 16);
}

// UpdateRange::rounding of a step.
inline uint32_t RoundingOf(uint64_t step) {
  return static_cast<uint32_t>(((step + 1) * 0x9e3779b97f4a7c15u) >> 32);
}

// Updates a range, or rows, by an update of a rule (rule_update.h), with vector code
// (update_loop.cc).
#define COHORT_APPLY_UPDATE(Rule)                                                 \
  void ApplyUpdate(const Rule##Update<float>& step, const UpdateRange<float>&);   \
  void ApplyUpdate(const Rule##Update<double>& step, const UpdateRange<double>&); \
  void ApplyUpdate(const Rule##Update<float>& step, const UpdateRows<float>&);    \
  void ApplyUpdate(const Rule##Update<double>& step, const UpdateRows<double>&);
COHORT_UPDATE_RULES(COHORT_APPLY_UPDATE)
#undef COHORT_APPLY_UPDATE

template <typename T>
void CopyRange(const UpdateRange<T>& range, size_t slots) {
  const auto copy_if_moved = [&range](const T* from, T* to, size_t element) {
    if (from != to) std::memcpy(to, from, static_cast<size_t>(range.elements) * element);
  };
  copy_if_moved(range.variable_in, range.variable_out, sizeof(T));
  for (size_t i = 0; i < slots; ++i) {
    copy_if_moved(range.slots_in[i], range.slots_out[i],
                  range.bfloat16_slots ? sizeof(uint16_t) : sizeof(T));
  }
}

template <typename Family>
class ElementwiseRule : public OptimizerRule {
 public:
  ElementwiseRule(Family family, double weight_decay, const RuleSettings& settings)
      : family_(std::move(family)),
        slots_(family_.Slots()),
        schedule_(settings.schedule),
        weight_decay_(weight_decay),
        moves_all_rows_(family_.moves_all_rows() || weight_decay_ != 0),
        lazy_(settings.lazy),
        bfloat16_slots_(settings.bfloat16_slots) {
    for (SlotInfo& slot : slots_) slot.is_bfloat16 = bfloat16_slots_;
  }

  std::span<const SlotInfo> slots() const override { return slots_; }
  bool touches_only_keys() const override { return lazy_ || !moves_all_rows_; }
  double LearningRate(uint64_t step) const override { return schedule_(static_cast<double>(step)); }
  RuleUpdate UpdateOfStep(DType dtype, uint64_t step) const override {
    if (bfloat16_slots_) return {};
    if (dtype == DType::kFloat32) return {ConstantsAt<float>(step)};
    return {ConstantsAt<double>(step)};
  }

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
  auto ConstantsAt(uint64_t step) const {
    return family_.template At<T>(step, static_cast<T>(LearningRate(step)),
                                  CastAsKeras<T>(weight_decay_));
  }
  // A weight of 0 makes the gradient zeros.
  template <typename T>
  static void SetGradient(const void* gradient, int64_t begin, double weight, UpdateRange<T>* r) {
    if (weight == 0) return;
    r->gradient = static_cast<const T*>(gradient) + begin;
    r->gradient_scale = static_cast<T>(1 / weight);
  }

  template <typename T>
  void Dense(const DenseUpdate& u) const {
    UpdateRange<T> range = RangeOf<T>(u.target, slots_.size(), 0, u.elements, bfloat16_slots_);
    range.rounding = RoundingOf(u.step);
    SetGradient(u.gradient, 0, u.weight, &range);
    range.non_finite = u.non_finite;
    ApplyUpdate(ConstantsAt<T>(u.step), range);
  }

  // A snapshot may share some of the tensors: each of these has its own copy then.
  bool IsInPlace(const UpdateTarget& target) const {
    bool in_place = target.variable_in == target.variable_out;
    for (size_t i = 0; i < slots_.size(); ++i) {
      in_place = in_place && target.slots_in[i] == target.slots_out[i];
    }
    return in_place;
  }

  template <typename T>
  void RowsInPlace(const RowsUpdate& u) const {
    UpdateRows<T> rows;
    rows.variable = static_cast<T*>(u.target.variable_out);
    for (size_t i = 0; i < slots_.size(); ++i) {
      rows.slots[i] = static_cast<T*>(u.target.slots_out[i]);
    }
    rows.bfloat16_slots = bfloat16_slots_;
    rows.rounding = RoundingOf(u.step);
    rows.gradient = static_cast<const T*>(u.gradient);
    rows.gradient_scale = static_cast<T>(1 / u.weight);
    rows.first_row = u.first_row;
    rows.row_elements = u.row_elements;
    rows.keys = u.keys;
    ApplyUpdate(ConstantsAt<T>(u.step), rows);
  }

  // Alternates between runs of rows with keys and runs without.
  template <typename T>
  void Rows(const RowsUpdate& u) const {
    if (touches_only_keys() && IsInPlace(u.target) && u.weight != 0) return RowsInPlace<T>(u);
    const auto step = ConstantsAt<T>(u.step);
    const int64_t n = u.row_elements;
    size_t key = 0;
    for (int64_t row = 0; row < u.rows;) {
      const bool has_keys = key < u.keys.size() && u.keys[key] - u.first_row == row;
      const size_t first_key = key;
      int64_t end = row;
      if (has_keys) {
        while (key < u.keys.size() && u.keys[key] - u.first_row == end) ++key, ++end;
      } else {
        end = key < u.keys.size() ? u.keys[key] - u.first_row : u.rows;
      }
      UpdateRange<T> range =
          RangeOf<T>(u.target, slots_.size(), row * n, (end - row) * n, bfloat16_slots_);
      range.rounding = RoundingOf(u.step);
      if (has_keys) {
        SetGradient(u.gradient, static_cast<int64_t>(first_key) * n, u.weight, &range);
      }
      if (has_keys || !touches_only_keys()) {
        ApplyUpdate(step, range);
      } else {
        CopyRange(range, slots_.size());
      }
      row = end;
    }
  }

  const Family family_;
  std::vector<SlotInfo> slots_;  // constant after construction
  const LearningRateSchedule schedule_;
  const double weight_decay_;
  const bool moves_all_rows_;
  const bool lazy_;
  const bool bfloat16_slots_;
};

// OptimizerClass::make of a family.
template <typename Family>
std::unique_ptr<OptimizerRule> MakeElementwise(const Config& config, const RuleSettings& settings) {
  return std::make_unique<ElementwiseRule<Family>>(Family(config), config.Float("weight_decay"),
                                                   settings);  // 0 for None
}

// Arguments that several optimizers have. Numbers stay far below the largest float32.
inline constexpr double kMostHyperparameter = 1e30;
Argument LearningRateArgument(double default_value);
Argument EpsilonArgument();
Argument WeightDecayArgument();  // None by default
Argument BetaArgument(std::string_view name, double default_value, std::string_view doc);
// Returns the arguments of an optimizer: its own, then those of Keras' base class, which are
// planned.
std::vector<Argument> WithBaseArguments(std::vector<Argument> own);

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_RULE_H_
