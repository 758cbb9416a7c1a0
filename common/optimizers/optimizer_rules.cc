#include "common/optimizers/optimizer_rules.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "common/base/status.h"
#include "common/optimizers/optimizer_rules_loops.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// For ops.cast(hyperparameter, dtype) of Keras, TensorFlow first makes a float32 tensor of the
// Python number: 0.9 becomes 0.89999998, in float64 too.
template <typename T>
T CastAsKeras(double hyperparameter) {
  return static_cast<T>(static_cast<float>(hyperparameter));
}

// The optimizer families. They hold hyperparameters as doubles. At<T> returns the constants of one
// step in the arithmetic of the variable's dtype, as Keras computes them.

struct Sgd {
  double momentum;
  bool nesterov;
  template <typename T>
  SgdStep<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate, weight_decay, CastAsKeras<T>(momentum), nesterov};
  }
  // Rows without a gradient change too, by their velocity.
  bool moves_all_rows() const { return momentum != 0; }
  std::vector<SlotInfo> Slots() const {
    return momentum != 0 ? std::vector<SlotInfo>{{"momentum", 0}} : std::vector<SlotInfo>{};
  }
};

struct Adam {
  double beta_1, beta_2, epsilon;
  bool amsgrad;
  template <typename T>
  AdamStep<T> At(uint64_t step, T learning_rate, T weight_decay) const {
    const T t = static_cast<T>(step + 1);
    const T power_1 = std::pow(CastAsKeras<T>(beta_1), t);
    const T power_2 = std::pow(CastAsKeras<T>(beta_2), t);
    const T alpha = learning_rate * std::sqrt(1 - power_2) / (1 - power_1);
    return {learning_rate,
            weight_decay,
            alpha,
            static_cast<T>(1 - beta_1),
            static_cast<T>(1 - beta_2),
            static_cast<T>(epsilon),
            amsgrad};
  }
  bool moves_all_rows() const { return true; }
  std::vector<SlotInfo> Slots() const {
    std::vector<SlotInfo> slots = {{"momentum", 0}, {"velocity", 0}};
    if (amsgrad) slots.push_back({"velocity_hat", 0});
    return slots;
  }
};

struct Rmsprop {
  double rho, momentum, epsilon;
  bool centered;
  template <typename T>
  RmspropStep<T> At(uint64_t, T learning_rate, T weight_decay) const {
    return {learning_rate,
            weight_decay,
            static_cast<T>(rho),
            static_cast<T>(1 - rho),
            static_cast<T>(momentum),
            static_cast<T>(epsilon),
            centered};
  }
  bool moves_all_rows() const { return true; }
  std::vector<SlotInfo> Slots() const {
    std::vector<SlotInfo> slots = {{"velocity", 0}};
    if (momentum > 0) slots.push_back({"momentum", 0});
    if (centered) slots.push_back({"average_gradient", 0});
    return slots;
  }
};

// Elements [begin, begin + elements) of a target.
template <typename T>
UpdateRange<T> RangeOf(const UpdateTarget& target, size_t slots, int64_t begin, int64_t elements) {
  UpdateRange<T> range;
  range.variable_in = static_cast<const T*>(target.variable_in) + begin;
  range.variable_out = static_cast<T*>(target.variable_out) + begin;
  for (size_t i = 0; i < slots; ++i) {
    range.slots_in[i] = static_cast<const T*>(target.slots_in[i]) + begin;
    range.slots_out[i] = static_cast<T*>(target.slots_out[i]) + begin;
  }
  range.elements = elements;
  return range;
}

template <typename T>
void CopyIfMoved(const T* from, T* to, int64_t n) {
  if (from != to) std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
}

template <typename T>
void CopyRange(const UpdateRange<T>& range, size_t slots) {
  CopyIfMoved(range.variable_in, range.variable_out, range.elements);
  for (size_t i = 0; i < slots; ++i) {
    CopyIfMoved(range.slots_in[i], range.slots_out[i], range.elements);
  }
}

template <typename Family>
class Rule : public OptimizerRule {
 public:
  Rule(Family family, const v1::OptimizerSpec& spec)
      : family_(family),
        slots_(family.Slots()),
        learning_rate_(spec.learning_rate()),
        weight_decay_(spec.weight_decay()),
        touches_only_keys_(spec.sparse_update() == "lazy" ||
                           (!family.moves_all_rows() && spec.weight_decay() == 0)) {}

  std::span<const SlotInfo> slots() const override { return slots_; }
  bool touches_only_keys() const override { return touches_only_keys_; }
  double LearningRate(uint64_t) const override { return learning_rate_; }

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
  auto StepAt(uint64_t step) const {
    return family_.template At<T>(step, static_cast<T>(LearningRate(step)),
                                  CastAsKeras<T>(weight_decay_));
  }
  // The gradient; null if the weight is 0, which makes it zeros.
  template <typename T>
  static void SetGradient(const void* gradient, int64_t begin, double weight, UpdateRange<T>* r) {
    if (weight == 0) return;
    r->gradient = static_cast<const T*>(gradient) + begin;
    r->gradient_scale = static_cast<T>(1 / weight);
  }

  template <typename T>
  void Dense(const DenseUpdate& u) const {
    UpdateRange<T> range = RangeOf<T>(u.target, slots_.size(), 0, u.elements);
    SetGradient(u.gradient, 0, u.weight, &range);
    ApplyRange(StepAt<T>(u.step), range);
  }

  // Alternates between runs of rows with keys and runs without.
  template <typename T>
  void Rows(const RowsUpdate& u) const {
    const auto step = StepAt<T>(u.step);
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
      UpdateRange<T> range = RangeOf<T>(u.target, slots_.size(), row * n, (end - row) * n);
      if (has_keys) {
        SetGradient(u.gradient, static_cast<int64_t>(first_key) * n, u.weight, &range);
      }
      if (has_keys || !touches_only_keys_) {
        ApplyRange(step, range);
      } else {
        CopyRange(range, slots_.size());
      }
      row = end;
    }
  }

  const Family family_;
  const std::vector<SlotInfo> slots_;
  const double learning_rate_;
  const double weight_decay_;
  const bool touches_only_keys_;
};

absl::Status CheckRange(std::string_view optimizer, std::string_view field, double value,
                        double max) {
  if (value >= 0 && value <= max) return absl::OkStatus();
  return InvalidArgument("{}: {} must lie in [0, {}], not be {}", optimizer, field, max, value);
}

absl::Status CheckSpec(const v1::OptimizerSpec& spec) {
  constexpr double kLimit = 1e30;
  const std::string& name = spec.class_name();
  COHORT_RETURN_IF_ERROR(CheckRange(name, "learning_rate", spec.learning_rate(), kLimit));
  COHORT_RETURN_IF_ERROR(CheckRange(name, "weight_decay", spec.weight_decay(), kLimit));
  COHORT_RETURN_IF_ERROR(CheckRange(name, "epsilon", spec.epsilon(), kLimit));
  COHORT_RETURN_IF_ERROR(CheckRange(name, "momentum", spec.momentum(), 1));
  COHORT_RETURN_IF_ERROR(CheckRange(name, "rho", spec.rho(), 1));
  COHORT_RETURN_IF_ERROR(CheckRange(name, "beta_1", spec.beta_1(), 1 - 1e-15));
  COHORT_RETURN_IF_ERROR(CheckRange(name, "beta_2", spec.beta_2(), 1 - 1e-15));
  const std::string& sparse = spec.sparse_update();
  if (!sparse.empty() && sparse != "keras" && sparse != "lazy") {
    return InvalidArgument("{}: sparse_update must be \"keras\" or \"lazy\", not \"{}\"", name,
                           sparse);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<OptimizerRule>> OptimizerRule::Create(
    const v1::OptimizerSpec& spec) {
  const std::string& name = spec.class_name();
  if (name != "SGD" && name != "Adam" && name != "RMSprop") {
    return Unimplemented("optimizer \"{}\" is not one of SGD, Adam, RMSprop", name);
  }
  COHORT_RETURN_IF_ERROR(CheckSpec(spec));
  std::unique_ptr<OptimizerRule> rule;
  if (name == "SGD") {
    rule = std::make_unique<Rule<Sgd>>(Sgd{spec.momentum(), spec.nesterov()}, spec);
  } else if (name == "Adam") {
    rule = std::make_unique<Rule<Adam>>(
        Adam{spec.beta_1(), spec.beta_2(), spec.epsilon(), spec.amsgrad()}, spec);
  } else {
    rule = std::make_unique<Rule<Rmsprop>>(
        Rmsprop{spec.rho(), spec.momentum(), spec.epsilon(), spec.centered()}, spec);
  }
  return rule;
}

}  // namespace cohort
