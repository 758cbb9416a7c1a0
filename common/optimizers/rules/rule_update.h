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

// The rules: X(Rule) for each, which has a struct RuleUpdate<T>.
#define COHORT_UPDATE_RULES(X) X(Adagrad) X(Adam) X(Ftrl) X(Rmsprop) X(Sgd)

// Updates one element in a form of the step, after weight decay.
template <int kForm, typename Step, typename T>
COHORT_HD void UpdateElement(const Step& step, T& w, T* slots, T g) {
  if (step.weight_decay != 0) w = w - w * step.weight_decay * step.learning_rate;
  step.template Update<kForm>(w, slots, g);
}

struct RuleUpdate {
  std::variant<AdagradUpdate<float>, AdagradUpdate<double>, AdamUpdate<float>, AdamUpdate<double>,
               FtrlUpdate<float>, FtrlUpdate<double>, RmspropUpdate<float>, RmspropUpdate<double>,
               SgdUpdate<float>, SgdUpdate<double>>
      of;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_RULE_UPDATE_H_
