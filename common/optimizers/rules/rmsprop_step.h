#ifndef COHORT_COMMON_OPTIMIZERS_RULES_RMSPROP_STEP_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_RMSPROP_STEP_H_

#include <cmath>

#include "common/device/host_device.h"

namespace cohort {

// Slots: velocity, momentum if there is any, average_gradient if centered.
template <typename T>
struct RmspropStep {
  T learning_rate, weight_decay, rho, one_minus_rho, momentum, epsilon;
  bool centered;

  COHORT_HD int slots() const { return 1 + (momentum > 0 ? 1 : 0) + (centered ? 1 : 0); }
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T v = rho * slots[0] + one_minus_rho * (g * g);
    slots[0] = v;
    T denominator = v;
    if (centered) {
      T& average = momentum > 0 ? slots[2] : slots[1];
      average = rho * average + one_minus_rho * g;
      denominator = v - average * average;
    }
    T change = learning_rate * g / std::sqrt(denominator + epsilon);
    if (momentum > 0) {
      change = momentum * slots[1] + change;
      slots[1] = change;
    }
    w = w - change;
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_RMSPROP_STEP_H_
