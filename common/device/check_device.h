#ifndef COHORT_COMMON_DEVICE_CHECK_DEVICE_H_
#define COHORT_COMMON_DEVICE_CHECK_DEVICE_H_

#include <absl/status/status.h>

#include "common/device/device.h"

namespace cohort {

// Runs a small graph twice on the device: copies to it, a matrix product, copies back, and a call
// of the host. So a device that is there but does not work is found before a job is. It takes about
// a second the first time, when the device's libraries are loaded. Errors: those of the device;
// Internal if it computes something else.
absl::Status CheckDevice(Device* device);

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_CHECK_DEVICE_H_
