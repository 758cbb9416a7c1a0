#ifndef COHORT_COMMON_OPTIMIZERS_RULES_FTRL_STEP_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_FTRL_STEP_H_

#include <cmath>

#include "common/device/host_device.h"

namespace cohort {

// Slots: accumulator, linear.
template <typename T>
struct FtrlStep {
  T learning_rate, weight_decay;
  T power;           // exponent for the accumulator: -learning_rate_power
  T l1;              // l1_regularization_strength
  T two_l2;          // 2 * (l2_regularization_strength + beta / (2 * learning_rate))
  T two_shrinkages;  // 2 * l2_shrinkage_regularization_strength

  COHORT_HD int slots() const { return 2; }
  COHORT_HD T Power(T x) const { return power == T(0.5) ? std::sqrt(x) : std::pow(x, power); }
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T shrunk = g + two_shrinkages * w;
    const T accumulator = slots[0] + g * g;
    const T root = Power(accumulator);
    const T sigma = (root - Power(slots[0])) / learning_rate;
    const T linear = slots[1] + (shrunk - sigma * w);
    const T quadratic = root / learning_rate + two_l2;
    const T raised = linear > -l1 ? linear : -l1;
    const T clipped = raised < l1 ? raised : l1;
    w = (clipped - linear) / quadratic;
    slots[0] = accumulator;
    slots[1] = linear;
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_FTRL_STEP_H_
