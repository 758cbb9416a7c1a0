#ifndef COHORT_COMMON_DEVICE_DEVICES_H_
#define COHORT_COMMON_DEVICE_DEVICES_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/device/device.h"
#include "common/device/device_options.h"

namespace cohort {

class FlagSet;

// Adds --devices, --gpu_memory_limit_mb, --gpu_allow_growth, --virtual_gpus and --gpu_tensor_float.
void AddDeviceFlags(FlagSet* flags, DeviceOptions* options);

// Returns the names of the devices, with ordinals; empty: the CPU. Opens nothing. Errors:
// InvalidArgument (exit 64) naming the flag: no name of a device, one that stands there twice, the
// CPU beside others, a number out of range.
absl::StatusOr<std::vector<std::string>> ParseDeviceNames(const DeviceOptions& options);

// Returns the devices of the replicas of one process, one each. Devices of the CPU are shares of
// its cores, so there may be several: "cpu:0,cpu:1". Without `options.devices`: all GPUs, else one
// device of the CPU. Errors: those of ParseDeviceNames.
absl::StatusOr<std::vector<std::string>> ParseReplicaDevices(const DeviceOptions& options);
// The flags of AddDeviceFlags for a task that computes on one of these devices.
std::vector<std::string> DeviceFlags(std::string_view device, const DeviceOptions& options);

// Opens one device, or all of `options.devices` in their order; none: the CPU. A device that is
// opened again has a memory limit of its own. Errors: those of ParseDeviceNames and of OpenDevice
// (device.h); ResourceExhausted if the limit cannot be reserved; Internal with the device's
// message.
absl::StatusOr<std::shared_ptr<Device>> OpenDevice(std::string_view name,
                                                   const DeviceOptions& options);
absl::StatusOr<std::vector<std::shared_ptr<Device>>> OpenDevices(const DeviceOptions& options);

// The devices that jobs can use here: "cpu", then "cuda:0", "cuda:1", ... "simulated:<n>" always
// works, too, but is for tests.
std::vector<std::string> DeviceNames();

// What stands between this build and a GPU. For `cohort doctor`.
struct GpuSupport {
  std::string toolkit;      // CUDA version that this build was made with; "": without CUDA
  std::string driver;       // version of NVIDIA's driver; "": there is none
  std::string driver_cuda;  // the newest CUDA that the driver runs
  int gpus = 0;             // that the driver knows
};
GpuSupport FindGpuSupport();

// How busy a GPU is: 0 to 1, and the bytes that all processes use on it.
struct DeviceUsage {
  double utilization = 0;
  size_t used_bytes = 0, total_bytes = 0;
};
// Returns nothing if the device or its driver does not report it. `virtual_gpus`: as it was opened.
std::optional<DeviceUsage> UsageOf(const Device& device, int virtual_gpus = 1);

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_DEVICES_H_
