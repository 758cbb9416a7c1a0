#ifndef COHORT_COMMON_OPTIMIZERS_RULES_ADAGRAD_STEP_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_ADAGRAD_STEP_H_

#include <cmath>

#include "common/device/host_device.h"

namespace cohort {

template <typename T>
struct AdagradStep {
  T learning_rate, weight_decay, epsilon;

  COHORT_HD int slots() const { return 1; }
  COHORT_HD void Update(T& w, T* slots, T g) const {
    slots[0] = slots[0] + g * g;
    w = w - learning_rate * g / std::sqrt(slots[0] + epsilon);
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_ADAGRAD_STEP_H_
