// The optimizers of PyTorch (torch/optim), for modules that were traced. They differ from those of
// Keras: epsilon is added to the corrected root, weight decay is part of the gradient (except for
// AdamW), the velocity of SGD holds gradients without the learning rate, and no hyperparameter is
// rounded to float32.
#include <cmath>

#include "common/optimizers/rules/rule.h"

namespace cohort {
namespace {

// torch/optim/adam.py, and adamw.py if the decay is decoupled from the gradient.
template <bool kDecoupled>
class TorchAdam {
 public:
  explicit TorchAdam(const Config& config)
      : beta_1_(config.Float("beta_1")),
        beta_2_(config.Float("beta_2")),
        epsilon_(config.Float("epsilon")),
        decay_(config.Float("weight_decay")),
        amsgrad_(config.Bool("amsgrad")) {}

  std::vector<SlotInfo> Slots() const {
    std::vector<SlotInfo> slots = {{"exp_avg", 0}, {"exp_avg_sq", 0}};
    if (amsgrad_) slots.push_back({"max_exp_avg_sq", 0});
    return slots;
  }
  bool moves_all_rows() const { return true; }
  template <typename T>
  TorchAdamUpdate<T> At(uint64_t step, T learning_rate, T) const {
    const double t = static_cast<double>(step + 1);
    return {.learning_rate = learning_rate,
            .weight_decay = 0,
            .l2 = static_cast<T>(kDecoupled ? 0 : decay_),
            .kept = static_cast<T>(kDecoupled ? 1 - learning_rate * decay_ : 1),
            .step_size = static_cast<T>(learning_rate / (1 - std::pow(beta_1_, t))),
            .correction = static_cast<T>(std::sqrt(1 - std::pow(beta_2_, t))),
            .one_minus_beta_1 = static_cast<T>(1 - beta_1_),
            .beta_2 = static_cast<T>(beta_2_),
            .one_minus_beta_2 = static_cast<T>(1 - beta_2_),
            .epsilon = static_cast<T>(epsilon_),
            .amsgrad = amsgrad_};
  }

 private:
  double beta_1_, beta_2_, epsilon_, decay_;
  bool amsgrad_;
};

// torch/optim/sgd.py
class TorchSgd {
 public:
  explicit TorchSgd(const Config& config)
      : momentum_(config.Float("momentum")),
        dampening_(config.Float("dampening")),
        decay_(config.Float("weight_decay")),
        nesterov_(config.Bool("nesterov")) {}

  std::vector<SlotInfo> Slots() const {
    return momentum_ != 0 ? std::vector<SlotInfo>{{"momentum_buffer", 0}} : std::vector<SlotInfo>{};
  }
  bool moves_all_rows() const { return momentum_ != 0; }
  template <typename T>
  TorchSgdUpdate<T> At(uint64_t step, T learning_rate, T) const {
    return {.learning_rate = learning_rate,
            .weight_decay = 0,
            .l2 = static_cast<T>(decay_),
            .momentum = static_cast<T>(momentum_),
            .share = static_cast<T>(step == 0 ? 1 : 1 - dampening_),
            .nesterov = nesterov_};
  }

 private:
  double momentum_, dampening_, decay_;
  bool nesterov_;
};

// torch/optim/adagrad.py
class TorchAdagrad {
 public:
  explicit TorchAdagrad(const Config& config)
      : initial_(config.Float("initial_accumulator_value")),
        epsilon_(config.Float("epsilon")),
        rate_decay_(config.Float("lr_decay")),
        decay_(config.Float("weight_decay")) {}

  std::vector<SlotInfo> Slots() const { return {{"sum", initial_}}; }
  bool moves_all_rows() const { return false; }
  template <typename T>
  TorchAdagradUpdate<T> At(uint64_t step, T learning_rate, T) const {
    const double slower = 1 + static_cast<double>(step) * rate_decay_;
    return {.learning_rate = static_cast<T>(learning_rate / slower),
            .weight_decay = 0,
            .l2 = static_cast<T>(decay_),
            .epsilon = static_cast<T>(epsilon_)};
  }

 private:
  double initial_, epsilon_, rate_decay_, decay_;
};

// torch/optim/rmsprop.py
class TorchRmsprop {
 public:
  explicit TorchRmsprop(const Config& config)
      : alpha_(config.Float("rho")),
        momentum_(config.Float("momentum")),
        epsilon_(config.Float("epsilon")),
        decay_(config.Float("weight_decay")),
        centered_(config.Bool("centered")) {}

  std::vector<SlotInfo> Slots() const {
    std::vector<SlotInfo> slots = {{"square_avg", 0}};
    if (momentum_ > 0) slots.push_back({"momentum_buffer", 0});
    if (centered_) slots.push_back({"grad_avg", 0});
    return slots;
  }
  bool moves_all_rows() const { return true; }
  template <typename T>
  TorchRmspropUpdate<T> At(uint64_t, T learning_rate, T) const {
    return {.learning_rate = learning_rate,
            .weight_decay = 0,
            .l2 = static_cast<T>(decay_),
            .alpha = static_cast<T>(alpha_),
            .one_minus_alpha = static_cast<T>(1 - alpha_),
            .momentum = static_cast<T>(momentum_),
            .epsilon = static_cast<T>(epsilon_),
            .centered = centered_};
  }

 private:
  double alpha_, momentum_, epsilon_, decay_;
  bool centered_;
};

Argument TorchEpsilon(double default_value) {
  return Float("epsilon", "Added to the divisor, after its root and correction.")
      .Default(default_value)
      .Between(0, kMostHyperparameter);
}

Argument L2() {
  return Float("weight_decay", "Multiple of the weights that is added to the gradient.")
      .Default(0)
      .Between(0, kMostHyperparameter);
}

std::vector<Argument> TorchAdamArguments(Argument weight_decay) {
  return WithBaseArguments(
      {LearningRateArgument(0.001), BetaArgument("beta_1", 0.9, "Decay of the mean of gradients."),
       BetaArgument("beta_2", 0.999, "Decay of the mean of squares."), TorchEpsilon(1e-8),
       Bool("amsgrad", "Divides by the largest mean of squares so far.").Default(false),
       std::move(weight_decay)});
}

Argument Momentum() {
  return Float("momentum", "Share of the velocity that is kept.").Default(0).Between(0, 1);
}

}  // namespace

OptimizerClass TorchAdamOptimizer() {
  return {.schema = {.name = "TorchAdam",
                     .doc = "Adam with the formulas of PyTorch.",
                     .arguments = TorchAdamArguments(L2())},
          .make = MakeElementwise<TorchAdam<false>>};
}

OptimizerClass TorchAdamWOptimizer() {
  return {.schema = {.name = "TorchAdamW",
                     .doc = "AdamW with the formulas of PyTorch.",
                     .arguments = TorchAdamArguments(
                         Float("weight_decay",
                               "Decay of the weights per step, times the learning rate.")
                             .Default(0.01)
                             .Between(0, kMostHyperparameter))},
          .make = MakeElementwise<TorchAdam<true>>};
}

OptimizerClass TorchSgdOptimizer() {
  return {.schema = {.name = "TorchSGD",
                     .doc = "Gradient descent with the formulas of PyTorch.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.001), Momentum(),
                          Float("dampening", "Share of a gradient that the velocity does not take.")
                              .Default(0)
                              .Between(0, 1),
                          Bool("nesterov", "Nesterov's momentum.").Default(false), L2()})},
          .make = MakeElementwise<TorchSgd>};
}

OptimizerClass TorchAdagradOptimizer() {
  return {.schema = {.name = "TorchAdagrad",
                     .doc = "Adagrad with the formulas of PyTorch.",
                     .arguments = WithBaseArguments(
                         {LearningRateArgument(0.01),
                          Float("lr_decay", "The rate is divided by 1 + lr_decay * step.")
                              .Default(0)
                              .Between(0, kMostHyperparameter),
                          Float("initial_accumulator_value", "First value of the sum of squares.")
                              .Default(0)
                              .Between(0, kMostHyperparameter),
                          TorchEpsilon(1e-10), L2()})},
          .make = MakeElementwise<TorchAdagrad>};
}

OptimizerClass TorchRmspropOptimizer() {
  return {
      .schema = {.name = "TorchRMSprop",
                 .doc = "RMSprop with the formulas of PyTorch.",
                 .arguments = WithBaseArguments(
                     {LearningRateArgument(0.01),
                      Float("rho", "Decay of the mean of squares, `alpha` in PyTorch.")
                          .Default(0.99)
                          .Between(0, 1),
                      TorchEpsilon(1e-8), Momentum(),
                      Bool("centered", "Divides by the variance instead of the mean of squares.")
                          .Default(false),
                      L2()})},
      .make = MakeElementwise<TorchRmsprop>};
}

}  // namespace cohort
