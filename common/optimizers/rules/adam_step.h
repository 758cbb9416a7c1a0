#ifndef COHORT_COMMON_OPTIMIZERS_RULES_ADAM_STEP_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_ADAM_STEP_H_

#include <cmath>

#include "common/device/host_device.h"

namespace cohort {

template <typename T>
struct AdamStep {
  T learning_rate, weight_decay;
  T alpha;  // learning_rate * sqrt(1 - beta_2^t) / (1 - beta_1^t)
  T one_minus_beta_1, one_minus_beta_2, epsilon;
  bool amsgrad;

  COHORT_HD int slots() const { return amsgrad ? 3 : 2; }
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T m = slots[0] + (g - slots[0]) * one_minus_beta_1;
    T v = slots[1] + (g * g - slots[1]) * one_minus_beta_2;
    slots[0] = m;
    slots[1] = v;
    if (amsgrad) {
      v = slots[2] > v ? slots[2] : v;
      slots[2] = v;
    }
    w = w - m * alpha / (std::sqrt(v) + epsilon);
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_ADAM_STEP_H_
