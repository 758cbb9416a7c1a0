#ifndef COHORT_COMMON_TABLET_DEVICE_ROW_SUM_H_
#define COHORT_COMMON_TABLET_DEVICE_ROW_SUM_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/device/device.h"
#include "common/tablet/device_sum.h"
#include "common/tablet/shard_blocks.h"
#include "common/tablet/variable_op_run.h"

namespace cohort {

// The sums of gradients of some rows of a shard, in the memory of the device where the shard lies.
// The caller gives each row a *place*, from 0 on, and keeps the keys. Not thread-safe.
class DeviceRowSum {
 public:
  // `info` outlives this object.
  DeviceRowSum(std::shared_ptr<Device> device, const ShardInfo* info)
      : device_(std::move(device)), info_(info) {}

  // Adds row i of `values`, in memory of the host or of a device, to the sum at places[i]. A place
  // has at most one row of a call. `used`: how many places are used, these included. Errors: those
  // of the device; then the sums are undefined.
  absl::Status Add(const uint8_t* values, std::span<const int64_t> places, size_t used);
  // Puts the sums in the order of `places` one after another, with the keys of their rows, which
  // ascend. They stay valid until the next Add. Errors: those of the device.
  absl::StatusOr<DeviceGradient> Sort(std::span<const int64_t> places,
                                      std::span<const int64_t> keys);
  // Copies the sums to the host, in the order of their places. Errors: those of the device.
  absl::Status Download(std::span<uint8_t> to) const {
    return device_->CopyToHost(to.data(), sums_.data(), to.size());
  }
  // Begins new sums.
  void Clear() { used_ = 0; }

 private:
  // Makes room for places, and for rows of a call.
  absl::Status Grow(size_t places, size_t rows);
  absl::Status MakeOps();

  const std::shared_ptr<Device> device_;
  const ShardInfo* const info_;
  size_t used_ = 0;      // places whose sums are defined
  size_t capacity_ = 0;  // places, and rows of a call
  DeviceMemory sums_;
  DeviceMemory nothing_;        // as large, of -0.0: adding a number to it gives that number
  DeviceMemory incoming_;       // rows that come, or those that Sort makes
  DeviceMemory places_, keys_;  // int64
  std::unique_ptr<VariableOpRun> add_, gather_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_DEVICE_ROW_SUM_H_
