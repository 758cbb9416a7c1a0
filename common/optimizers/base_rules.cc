#include "common/optimizers/base_rules.h"

#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/optimizers/gradient_clipping.h"
#include "common/optimizers/rules/rule.h"
#include "common/optimizers/vector_loops.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// A rule around another one, which has the first slots. Devices do not run it.
class OuterRule : public OptimizerRule {
 public:
  explicit OuterRule(std::unique_ptr<OptimizerRule> inner)
      : inner_(std::move(inner)), slots_(inner_->slots().begin(), inner_->slots().end()) {}

  std::span<const SlotInfo> slots() const override { return slots_; }
  UpdateScope scope() const override { return inner_->scope(); }
  bool touches_only_keys() const override { return false; }
  double LearningRate(uint64_t step) const override { return inner_->LearningRate(step); }
  RuleUpdate UpdateOfStep(DType, uint64_t) const override { return {}; }

  void ApplyDense(const DenseUpdate& update) const override {
    if (update.target.dtype == DType::kFloat32) Dense(float{}, update);
    if (update.target.dtype == DType::kFloat64) Dense(double{}, update);
  }
  void ApplyRows(const RowsUpdate& update) const override {
    if (update.target.dtype == DType::kFloat32) Rows(float{}, update);
    if (update.target.dtype == DType::kFloat64) Rows(double{}, update);
  }

 protected:
  // The first argument tells the dtype.
  virtual void Dense(float, const DenseUpdate& update) const = 0;
  virtual void Dense(double, const DenseUpdate& update) const = 0;
  virtual void Rows(float, const RowsUpdate& update) const = 0;
  virtual void Rows(double, const RowsUpdate& update) const = 0;

  const std::unique_ptr<OptimizerRule> inner_;
  std::vector<SlotInfo> slots_;
};

// Sums gradients, and updates by their mean after `steps` of them. The inner rule counts updates;
// its learning rate counts steps.
class AccumulatingRule final : public OuterRule {
 public:
  AccumulatingRule(std::unique_ptr<OptimizerRule> inner, LearningRateSchedule schedule,
                   uint64_t steps)
      : OuterRule(std::move(inner)), schedule_(std::move(schedule)), steps_(steps) {
    slots_.push_back({"gradient_accumulator", 0});
  }
  double LearningRate(uint64_t step) const override { return schedule_(static_cast<double>(step)); }

 private:
  void Dense(float, const DenseUpdate& u) const override { ApplyDense<float>(u); }
  void Dense(double, const DenseUpdate& u) const override { ApplyDense<double>(u); }
  void Rows(float, const RowsUpdate& u) const override { ApplyRows<float>(u); }
  void Rows(double, const RowsUpdate& u) const override { ApplyRows<double>(u); }

  template <typename T>
  void ApplyDense(const DenseUpdate& u) const {
    std::vector<T> gradient(static_cast<size_t>(u.elements));
    if (u.weight != 0) {
      std::memcpy(gradient.data(), u.gradient, gradient.size() * sizeof(T));
      if (u.non_finite != nullptr && AnyNonFinite(gradient.data(), gradient.size())) {
        *u.non_finite = true;
      }
      const T scale = static_cast<T>(1 / u.weight);
      for (T& g : gradient) g *= scale;
    }
    Apply(u.target, u.step, &gradient);
  }

  template <typename T>
  void ApplyRows(const RowsUpdate& u) const {
    const auto n = static_cast<size_t>(u.row_elements);
    std::vector<T> gradient(static_cast<size_t>(u.rows) * n);
    for (size_t k = 0; k < u.keys.size() && u.weight != 0; ++k) {
      T* const row = gradient.data() + static_cast<size_t>(u.keys[k] - u.first_row) * n;
      std::memcpy(row, static_cast<const T*>(u.gradient) + k * n, n * sizeof(T));
      const T scale = static_cast<T>(1 / u.weight);
      for (size_t i = 0; i < n; ++i) row[i] *= scale;
    }
    Apply(u.target, u.step, &gradient);
  }

  template <typename T>
  void Apply(const UpdateTarget& target, uint64_t step, std::vector<T>* gradient) const {
    const size_t own = slots_.size() - 1;
    const auto* const from = static_cast<const T*>(target.slots_in[own]);
    auto* const to = static_cast<T*>(target.slots_out[own]);
    const auto elements = static_cast<int64_t>(gradient->size());
    if ((step + 1) % steps_ != 0) {
      for (size_t i = 0; i < gradient->size(); ++i) to[i] = (*gradient)[i] + from[i];
      CopyRange(RangeOf<T>(target, own, 0, elements), own);
      return;
    }
    const T count = static_cast<T>(steps_);
    for (size_t i = 0; i < gradient->size(); ++i) {
      (*gradient)[i] = ((*gradient)[i] + from[i]) / count;
      to[i] = 0;
    }
    inner_->ApplyDense({.target = target,
                        .elements = elements,
                        .gradient = gradient->data(),
                        .step = step / steps_});
  }

  const LearningRateSchedule schedule_;
  const uint64_t steps_;
};

// Averages the variable after each step, and overwrites it by the average after `frequency`
// updates; 0: never.
class AveragingRule final : public OuterRule {
 public:
  // `accumulated`: steps for each update.
  AveragingRule(std::unique_ptr<OptimizerRule> inner, double momentum, uint64_t frequency,
                uint64_t accumulated)
      : OuterRule(std::move(inner)),
        momentum_(momentum),
        frequency_(frequency),
        accumulated_(accumulated) {
    slots_.push_back({.name = kAverageSlot, .is_copy = true});
  }

 private:
  void Dense(float, const DenseUpdate& u) const override {
    inner_->ApplyDense(u);
    Average<float>(u.target, u.elements, u.step);
  }
  void Dense(double, const DenseUpdate& u) const override {
    inner_->ApplyDense(u);
    Average<double>(u.target, u.elements, u.step);
  }
  void Rows(float, const RowsUpdate& u) const override {
    inner_->ApplyRows(u);
    Average<float>(u.target, u.rows * u.row_elements, u.step);
  }
  void Rows(double, const RowsUpdate& u) const override {
    inner_->ApplyRows(u);
    Average<double>(u.target, u.rows * u.row_elements, u.step);
  }

  template <typename T>
  void Average(const UpdateTarget& target, int64_t elements, uint64_t step) const {
    const uint64_t iteration = step / accumulated_;
    const T keep = iteration == 0 ? T(0) : static_cast<T>(momentum_), take = 1 - keep;
    const size_t own = slots_.size() - 1;
    const auto* const from = static_cast<const T*>(target.slots_in[own]);
    auto* const to = static_cast<T*>(target.slots_out[own]);
    auto* const variable = static_cast<T*>(target.variable_out);
    for (int64_t i = 0; i < elements; ++i) to[i] = keep * from[i] + take * variable[i];
    if (frequency_ == 0 || (iteration + 1) % frequency_ != 0) return;
    std::memcpy(variable, to, static_cast<size_t>(elements) * sizeof(T));
  }

  const double momentum_;
  const uint64_t frequency_, accumulated_;
};

class ConstrainedRule final : public OuterRule {
 public:
  ConstrainedRule(std::unique_ptr<OptimizerRule> inner, const Constraint& constraint, bool lazy)
      : OuterRule(std::move(inner)),
        constraint_(constraint),
        only_keys_(lazy && inner_->touches_only_keys() &&
                   constraint.scope() != UpdateScope::kVariable) {}

  UpdateScope scope() const override { return std::max(inner_->scope(), constraint_.scope()); }
  bool touches_only_keys() const override { return only_keys_; }

 private:
  void Dense(float, const DenseUpdate& u) const override { ApplyDense<float>(u); }
  void Dense(double, const DenseUpdate& u) const override { ApplyDense<double>(u); }
  void Rows(float, const RowsUpdate& u) const override { ApplyRows<float>(u); }
  void Rows(double, const RowsUpdate& u) const override { ApplyRows<double>(u); }

  template <typename T>
  void ApplyDense(const DenseUpdate& u) const {
    inner_->ApplyDense(u);
    constraint_.Apply(static_cast<T*>(u.target.variable_out), u.elements);
  }
  template <typename T>
  void ApplyRows(const RowsUpdate& u) const {
    inner_->ApplyRows(u);
    auto* const variable = static_cast<T*>(u.target.variable_out);
    if (!only_keys_) return constraint_.Apply(variable, u.rows * u.row_elements);
    for (const int64_t key : u.keys) {
      constraint_.Apply(variable + (key - u.first_row) * u.row_elements, u.row_elements);
    }
  }

  const Constraint constraint_;
  const bool only_keys_;
};

uint64_t AccumulatedSteps(const Config& config) {
  return config.IsNone("gradient_accumulation_steps")
             ? 1
             : static_cast<uint64_t>(config.Int("gradient_accumulation_steps"));
}

}  // namespace

std::vector<Argument> BaseArguments() {
  return {Bool("use_ema", "Keeps averages of variables, which replace them at the end of the job.")
              .Default(false),
          Float("ema_momentum", "Decay of the averages.").Default(0.99).Between(0, 1),
          Int("ema_overwrite_frequency", "Steps after which averages replace variables, too.")
              .Optional()
              .AtLeast(1),
          Planned(Float("loss_scale_factor",
                        "a job in float16 scales its loss by `mixed_precision.loss_scale`, and in "
                        "float32 a factor changes nothing")
                      .Optional()),
          Int("gradient_accumulation_steps",
              "Steps that make one update together, by the mean of their gradients.")
              .Optional()
              .AtLeast(2),
          String("slot_dtype",
                 "bfloat16: slots take half of the memory. They are rounded up or down at random, "
                 "so that small addends are not lost.")
              .Default("float32")
              .OneOf({"float32", "bfloat16"})};
}

absl::Status CheckBaseArguments(const v1::OptimizerSpec& complete, std::string* argument) {
  const Config config(complete.rule());
  const auto refuse = [&](std::string_view name, std::string_view why) {
    if (argument != nullptr) *argument = std::string(name);
    return InvalidArgument("{}: {}", complete.rule().class_name(), why);
  };
  const bool accumulates = AccumulatedSteps(config) > 1;
  if (complete.sparse_update() == "lazy" && (config.Bool("use_ema") || accumulates)) {
    return refuse("sparse_update",
                  "use_ema and gradient_accumulation_steps change all rows: sparse_update must be "
                  "keras");
  }
  if (config.String("slot_dtype") == "bfloat16" && (config.Bool("use_ema") || accumulates)) {
    return refuse("slot_dtype",
                  "averages and sums of gradients (use_ema, gradient_accumulation_steps) need "
                  "slots of float32");
  }
  for (const std::string_view clipping : {"clipnorm", "clipvalue", "global_clipnorm"}) {
    if (accumulates && !config.IsNone(clipping) && config.Float(clipping) > 0) {
      return refuse(clipping,
                    fmt::format("Keras clips the mean of gradient_accumulation_steps gradients by "
                                "{}, and Cohort clips each of them; leave one of both out",
                                clipping));
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<OptimizerRule> MakeWithBase(const OptimizerClass& optimizer, const Config& config,
                                            const RuleSettings& settings) {
  const uint64_t steps = AccumulatedSteps(config);
  std::unique_ptr<OptimizerRule> rule;
  if (steps > 1) {
    RuleSettings inner = settings;
    inner.schedule = [schedule = settings.schedule, steps](double update) {
      const auto count = static_cast<double>(steps);
      return schedule(update * count + count - 1);
    };
    rule =
        std::make_unique<AccumulatingRule>(optimizer.make(config, inner), settings.schedule, steps);
  } else {
    rule = optimizer.make(config, settings);
  }
  if (!config.Bool("use_ema")) return rule;
  return std::make_unique<AveragingRule>(
      std::move(rule), config.Float("ema_momentum"),
      config.IsNone("ema_overwrite_frequency")
          ? 0
          : static_cast<uint64_t>(config.Int("ema_overwrite_frequency")),
      steps);
}

std::optional<size_t> SlotOfAverage(std::span<const SlotInfo> slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].name == kAverageSlot) return i;
  }
  return std::nullopt;
}

std::unique_ptr<OptimizerRule> Constrained(std::unique_ptr<OptimizerRule> rule,
                                           const Constraint& constraint, bool lazy) {
  return std::make_unique<ConstrainedRule>(std::move(rule), constraint, lazy);
}

}  // namespace cohort
