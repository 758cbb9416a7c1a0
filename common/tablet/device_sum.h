#ifndef COHORT_COMMON_TABLET_DEVICE_SUM_H_
#define COHORT_COMMON_TABLET_DEVICE_SUM_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/device/device.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/shard_blocks.h"
#include "common/tablet/variable_op_run.h"

namespace cohort {

// A gradient of a shard in the memory of the device where the shard lies.
struct DeviceGradient {
  DevicePush push;
  int64_t keys = 0;  // rows of this gradient, if it is one of rows
};

// The sum of the dense gradients of one shard, in the memory of the device where the shard lies.
// Not thread-safe.
class DeviceSum {
 public:
  // Errors: those of the device.
  static absl::StatusOr<std::unique_ptr<DeviceSum>> Make(std::shared_ptr<Device> device,
                                                         const ShardInfo& info);
  // Adds a whole gradient, whose parts are in memory of the host or of a device. `first`: it takes
  // the place of what was there. Errors: those of the device; then the sum is undefined.
  absl::Status Add(std::span<const PushEntryView> parts, bool first);

  DeviceGradient gradient() const { return {.push = {.values = sum_.data()}}; }
  // Copies the sum to the host, which has as many bytes. Errors: those of the device.
  absl::Status Download(std::span<uint8_t> to) const {
    return device_->CopyToHost(to.data(), sum_.data(), to.size());
  }

 private:
  DeviceSum(std::shared_ptr<Device> device, DType dtype)
      : device_(std::move(device)), element_(SizeOf(dtype)) {}

  const std::shared_ptr<Device> device_;
  const size_t element_;
  DeviceMemory sum_, incoming_;
  std::unique_ptr<VariableOpRun> add_;  // incoming_ to sum_
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_DEVICE_SUM_H_
