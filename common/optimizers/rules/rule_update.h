#ifndef COHORT_COMMON_OPTIMIZERS_RULES_RULE_UPDATE_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_RULE_UPDATE_H_

#include <cmath>
#include <variant>

#include "common/device/host_device.h"

namespace cohort {

// An *update* of a rule has its constants in one step of training, in the arithmetic of the
// variable, and changes one element with them:
//
//   T learning_rate, weight_decay;                  // and others
//   static constexpr int kForms = ...;              // forms of its arithmetic, of which
//   int form() const;                               // the constants choose one
//   static constexpr int Slots(int form);           // that a form uses
//   template <int kForm>
//   void Update(T& w, T* slots, T g) const;         // one element, without weight decay
//
// Hosts and devices run Update (update_loop.cc, common/optimizers/grid), in the order of operations
// of Keras and with one rounding each. An update can be copied as bytes.

template <typename T>
struct AdagradUpdate {
  T learning_rate, weight_decay, epsilon;

  static constexpr int kForms = 1;
  COHORT_HD int form() const { return 0; }
  static constexpr COHORT_HD int Slots(int) { return 1; }
  template <int>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    slots[0] = slots[0] + g * g;
    w = w - learning_rate * g / std::sqrt(slots[0] + epsilon);
  }
};

template <typename T>
struct AdamUpdate {
  T learning_rate, weight_decay;
  T alpha;  // learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
  T one_minus_beta_1, one_minus_beta_2, epsilon;
  bool amsgrad;

  static constexpr int kForms = 2;
  COHORT_HD int form() const { return amsgrad ? 1 : 0; }
  static constexpr COHORT_HD int Slots(int form) { return 2 + form; }
  template <int kAmsgrad>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T m = slots[0] + (g - slots[0]) * one_minus_beta_1;
    T v = slots[1] + (g * g - slots[1]) * one_minus_beta_2;
    slots[0] = m;
    slots[1] = v;
    if constexpr (kAmsgrad != 0) {
      v = slots[2] > v ? slots[2] : v;
      slots[2] = v;
    }
    w = w - m * alpha / (std::sqrt(v) + epsilon);
  }
};

// Slots: accumulator, linear.
template <typename T>
struct FtrlUpdate {
  T learning_rate, weight_decay;
  T power;           // exponent for the accumulator: -learning_rate_power
  T l1;              // l1_regularization_strength
  T two_l2;          // 2 * (l2_regularization_strength + beta / (2 * learning_rate))
  T two_shrinkages;  // 2 * l2_shrinkage_regularization_strength

  static constexpr int kForms = 2;
  COHORT_HD int form() const { return power == T(0.5) ? 1 : 0; }
  static constexpr COHORT_HD int Slots(int) { return 2; }
  template <int kSqrt>
  COHORT_HD T Power(T x) const {
    if constexpr (kSqrt != 0) {
      return std::sqrt(x);
    } else {
      return std::pow(x, power);
    }
  }
  template <int kSqrt>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T shrunk = g + two_shrinkages * w;
    const T accumulator = slots[0] + g * g;
    const T root = Power<kSqrt>(accumulator);
    const T sigma = (root - Power<kSqrt>(slots[0])) / learning_rate;
    const T linear = slots[1] + (shrunk - sigma * w);
    const T quadratic = root / learning_rate + two_l2;
    const T raised = linear > -l1 ? linear : -l1;
    const T clipped = raised < l1 ? raised : l1;
    w = (clipped - linear) / quadratic;
    slots[0] = accumulator;
    slots[1] = linear;
  }
};

// Slots: velocity, momentum if there is any, average_gradient if centered.
template <typename T>
struct RmspropUpdate {
  T learning_rate, weight_decay, rho, one_minus_rho, momentum, epsilon;
  bool centered;

  static constexpr int kForms = 4;
  COHORT_HD int form() const { return (momentum > 0 ? 1 : 0) + (centered ? 2 : 0); }
  static constexpr COHORT_HD int Slots(int form) { return 1 + form % 2 + form / 2; }
  template <int kForm>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T v = rho * slots[0] + one_minus_rho * (g * g);
    slots[0] = v;
    T denominator = v;
    if constexpr (kForm >= 2) {
      T& average = slots[Slots(kForm) - 1];
      average = rho * average + one_minus_rho * g;
      denominator = v - average * average;
    }
    T change = learning_rate * g / std::sqrt(denominator + epsilon);
    if constexpr (kForm % 2 == 1) {
      change = momentum * slots[1] + change;
      slots[1] = change;
    }
    w = w - change;
  }
};

template <typename T>
struct SgdUpdate {
  T learning_rate, weight_decay, momentum;
  bool nesterov;

  static constexpr int kForms = 2;
  COHORT_HD int form() const { return momentum != 0 ? 1 : 0; }
  static constexpr COHORT_HD int Slots(int form) { return form; }
  template <int kMomentum>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T change = g * learning_rate;
    if constexpr (kMomentum == 0) {
      w = w - change;
    } else {
      const T m = slots[0] * momentum - change;
      slots[0] = m;
      w = w + (nesterov ? m * momentum - change : m);
    }
  }
};

// Slots: accumulated_grad, accumulated_delta_var.
template <typename T>
struct AdadeltaUpdate {
  T learning_rate, weight_decay, rho, one_minus_rho, epsilon;

  static constexpr int kForms = 1;
  COHORT_HD int form() const { return 0; }
  static constexpr COHORT_HD int Slots(int) { return 2; }
  template <int>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    slots[0] = rho * slots[0] + one_minus_rho * (g * g);
    const T delta = -(std::sqrt(slots[1] + epsilon) * g / std::sqrt(slots[0] + epsilon));
    slots[1] = rho * slots[1] + one_minus_rho * (delta * delta);
    w = w + learning_rate * delta;
  }
};

// Slots: momentum, norm.
template <typename T>
struct AdamaxUpdate {
  T learning_rate, weight_decay, one_minus_beta_1, beta_2, epsilon;
  T one_minus_power;  // 1 - beta_1^t

  static constexpr int kForms = 1;
  COHORT_HD int form() const { return 0; }
  static constexpr COHORT_HD int Slots(int) { return 2; }
  template <int>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    slots[0] = slots[0] + (g - slots[0]) * one_minus_beta_1;
    const T decayed = beta_2 * slots[1];
    const T size = g < 0 ? -g : g;
    slots[1] = decayed > size ? decayed : size;
    w = w - learning_rate * slots[0] / (one_minus_power * (slots[1] + epsilon));
  }
};

template <typename T>
struct LionUpdate {
  T learning_rate, weight_decay, beta_1, one_minus_beta_1, beta_2, one_minus_beta_2;

  static constexpr int kForms = 1;
  COHORT_HD int form() const { return 0; }
  static constexpr COHORT_HD int Slots(int) { return 1; }
  template <int>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T mean = slots[0] * beta_1 + g * one_minus_beta_1;
    const T sign = mean > 0 ? T(1) : (mean < 0 ? T(-1) : T(0));
    w = w - learning_rate * sign;
    slots[0] = slots[0] * beta_2 + g * one_minus_beta_2;
  }
};

// Slots: momentum, velocity.
template <typename T>
struct NadamUpdate {
  T learning_rate, weight_decay, one_minus_beta_1, one_minus_beta_2, epsilon;
  T next_rate;                          // u of the next step, by which the mean counts
  T one_minus_rate;                     // 1 - u of this step, by which the gradient counts
  T one_minus_next, one_minus_product;  // 1 - the product of all u, with the next one and without
  T one_minus_power;                    // 1 - beta_2^t

  static constexpr int kForms = 1;
  COHORT_HD int form() const { return 0; }
  static constexpr COHORT_HD int Slots(int) { return 2; }
  template <int>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    slots[0] = slots[0] + (g - slots[0]) * one_minus_beta_1;
    slots[1] = slots[1] + (g * g - slots[1]) * one_minus_beta_2;
    const T mean = next_rate * slots[0] / one_minus_next + one_minus_rate * g / one_minus_product;
    w = w - mean * learning_rate / (std::sqrt(slots[1] / one_minus_power) + epsilon);
  }
};

// Slots: momentum (z of the paper, which begins as the variable), velocity.
template <typename T>
struct ScheduleFreeAdamwUpdate {
  T learning_rate, weight_decay;
  T rate;  // learning_rate after the warm-up
  T beta_1, one_minus_beta_1, one_minus_beta_2, epsilon;
  T correction;                // 1 - beta_2^t
  T weight, one_minus_weight;  // 1 / t: what z counts in the mean x

  static constexpr int kForms = 1;
  COHORT_HD int form() const { return 0; }
  static constexpr COHORT_HD int Slots(int) { return 2; }
  template <int>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    slots[1] = slots[1] + (g * g - slots[1]) * one_minus_beta_2;
    slots[0] = slots[0] - rate * g / (std::sqrt(slots[1] / correction) + epsilon);
    // The paper takes z before its change here. Keras on TensorFlow reads it after, from the
    // variable.
    const T mean = (w - one_minus_beta_1 * slots[0]) / beta_1;
    const T next = one_minus_weight * mean + weight * slots[0];
    w = one_minus_beta_1 * slots[0] + beta_1 * next;
  }
};

// The gradient with the weight decay that PyTorch adds to it.
template <typename T>
COHORT_HD T Decayed(T g, T w, T l2) {
  return l2 != 0 ? g + l2 * w : g;
}

template <typename T>
struct TorchAdagradUpdate {
  T learning_rate, weight_decay, l2, epsilon;

  static constexpr int kForms = 1;
  COHORT_HD int form() const { return 0; }
  static constexpr COHORT_HD int Slots(int) { return 1; }
  template <int>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    g = Decayed(g, w, l2);
    slots[0] = slots[0] + g * g;
    w = w - learning_rate * (g / (std::sqrt(slots[0]) + epsilon));
  }
};

template <typename T>
struct TorchAdamUpdate {
  T learning_rate, weight_decay, l2;
  T kept;        // the part of the variable that a decay beside the gradient leaves
  T step_size;   // learning_rate / (1 - beta_1^t)
  T correction;  // sqrt(1 - beta_2^t)
  T one_minus_beta_1, beta_2, one_minus_beta_2, epsilon;
  bool amsgrad;

  static constexpr int kForms = 2;
  COHORT_HD int form() const { return amsgrad ? 1 : 0; }
  static constexpr COHORT_HD int Slots(int form) { return 2 + form; }
  template <int kAmsgrad>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    if (kept != 1) w = w * kept;
    g = Decayed(g, w, l2);
    const T m = slots[0] + (g - slots[0]) * one_minus_beta_1;
    T v = slots[1] * beta_2 + g * g * one_minus_beta_2;
    slots[0] = m;
    slots[1] = v;
    if constexpr (kAmsgrad != 0) {
      v = slots[2] > v ? slots[2] : v;
      slots[2] = v;
    }
    w = w - step_size * (m / (std::sqrt(v) / correction + epsilon));
  }
};

// Slots: square_avg, momentum_buffer if there is momentum, grad_avg if centered.
template <typename T>
struct TorchRmspropUpdate {
  T learning_rate, weight_decay, l2, alpha, one_minus_alpha, momentum, epsilon;
  bool centered;

  static constexpr int kForms = 4;
  COHORT_HD int form() const { return (momentum > 0 ? 1 : 0) + (centered ? 2 : 0); }
  static constexpr COHORT_HD int Slots(int form) { return 1 + form % 2 + form / 2; }
  template <int kForm>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    g = Decayed(g, w, l2);
    const T v = alpha * slots[0] + one_minus_alpha * (g * g);
    slots[0] = v;
    T square = v;
    if constexpr (kForm >= 2) {
      T& average = slots[Slots(kForm) - 1];
      average = average + one_minus_alpha * (g - average);
      square = v - average * average;
    }
    T change = g / (std::sqrt(square) + epsilon);
    if constexpr (kForm % 2 == 1) {
      change = momentum * slots[1] + change;
      slots[1] = change;
    }
    w = w - learning_rate * change;
  }
};

template <typename T>
struct TorchSgdUpdate {
  T learning_rate, weight_decay, l2, momentum;
  T share;  // the part of the gradient that the velocity takes
  bool nesterov;

  static constexpr int kForms = 2;
  COHORT_HD int form() const { return momentum != 0 ? 1 : 0; }
  static constexpr COHORT_HD int Slots(int form) { return form; }
  template <int kMomentum>
  COHORT_HD void Update(T& w, T* slots, T g) const {
    g = Decayed(g, w, l2);
    if constexpr (kMomentum != 0) {
      const T m = momentum * slots[0] + share * g;
      slots[0] = m;
      g = nesterov ? g + momentum * m : m;
    }
    w = w - learning_rate * g;
  }
};

// The rules: X(Rule) for each, which has a struct RuleUpdate<T>.
#define COHORT_UPDATE_RULES(X) \
  X(Adadelta)                  \
  X(Adagrad)                   \
  X(Adam)                      \
  X(Adamax)                    \
  X(Ftrl)                      \
  X(Lion)                      \
  X(Nadam)                     \
  X(Rmsprop)                   \
  X(ScheduleFreeAdamw)         \
  X(Sgd)                       \
  X(TorchAdagrad)              \
  X(TorchAdam)                 \
  X(TorchRmsprop)              \
  X(TorchSgd)

// Updates one element in a form of the step, after weight decay.
template <int kForm, typename Step, typename T>
COHORT_HD void UpdateElement(const Step& step, T& w, T* slots, T g) {
  if (step.weight_decay != 0) w = w - w * step.weight_decay * step.learning_rate;
  step.template Update<kForm>(w, slots, g);
}

// Nothing: the rule does more than to update element by element, and devices do not run it.
struct RuleUpdate {
#define COHORT_ALTERNATIVES(Rule) , Rule##Update<float>, Rule##Update<double>
  std::variant<std::monostate COHORT_UPDATE_RULES(COHORT_ALTERNATIVES)> of;
#undef COHORT_ALTERNATIVES
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_RULE_UPDATE_H_
