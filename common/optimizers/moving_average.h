#ifndef COHORT_COMMON_OPTIMIZERS_MOVING_AVERAGE_H_
#define COHORT_COMMON_OPTIMIZERS_MOVING_AVERAGE_H_

#include "common/device/host_device.h"

namespace cohort {

// PushKind::kEma on one element: value * momentum + pushed * (1 - momentum). Hosts and devices use
// this expression, so the bits are the same. As in Keras, 1 - momentum is rounded to T once.
template <typename T>
struct MovingAverage {
  T keep, take;

  static MovingAverage Of(double momentum) {
    return {static_cast<T>(momentum), static_cast<T>(1.0 - momentum)};
  }
  COHORT_HD T operator()(T value, T pushed) const {
    return static_cast<T>(value * keep + pushed * take);
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_MOVING_AVERAGE_H_
