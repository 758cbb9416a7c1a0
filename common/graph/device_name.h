#ifndef COHORT_COMMON_GRAPH_DEVICE_NAME_H_
#define COHORT_COMMON_GRAPH_DEVICE_NAME_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace cohort {

// Where a layer runs: a device of the worker that runs the step, or of the worker that is named.
struct DeviceName {
  static constexpr int kOwnWorker = -1;

  int worker = kOwnWorker;  // its index in TF_CONFIG
  std::string device;       // "cuda:1"; always with a number

  // "cuda:1", "worker:1/cuda:0".
  std::string ToString() const;
};

// Reads "cuda:1", "cpu" (the first one), "worker:1/cuda:0", and TensorFlow's names: "GPU:1",
// "/device:GPU:1", "/job:worker/task:1/device:GPU:0". It opens nothing. Errors: InvalidArgument,
// with the forms that there are.
absl::StatusOr<DeviceName> ParseDeviceName(std::string_view text);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_DEVICE_NAME_H_
