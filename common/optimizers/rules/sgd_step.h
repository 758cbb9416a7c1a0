#ifndef COHORT_COMMON_OPTIMIZERS_RULES_SGD_STEP_H_
#define COHORT_COMMON_OPTIMIZERS_RULES_SGD_STEP_H_

#include "common/device/host_device.h"

namespace cohort {

template <typename T>
struct SgdStep {
  T learning_rate, weight_decay, momentum;
  bool nesterov;

  COHORT_HD int slots() const { return momentum != 0 ? 1 : 0; }
  COHORT_HD void Update(T& w, T* slots, T g) const {
    const T change = g * learning_rate;
    if (momentum == 0) {
      w = w - change;
      return;
    }
    const T m = slots[0] * momentum - change;
    slots[0] = m;
    w = w + (nesterov ? m * momentum - change : m);
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_RULES_SGD_STEP_H_
