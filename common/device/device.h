#ifndef COHORT_COMMON_DEVICE_DEVICE_H_
#define COHORT_COMMON_DEVICE_DEVICE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/device/graph_plan.h"

namespace cohort {

// A block of memory that is freed with this object, aligned to 256 bytes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(void* data, size_t bytes, std::function<void(void*)> free)
      : data_(data, std::move(free)), bytes_(bytes) {}

  uint8_t* data() const { return static_cast<uint8_t*>(data_.get()); }
  size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_;
  size_t bytes_ = 0;
};

// What `cohort doctor` prints of a device.
struct DeviceInfo {
  std::string model;       // "NVIDIA H200"
  std::string capability;  // "9.0"; empty: none
  size_t memory_bytes = 0;
  size_t free_bytes = 0;
};

// A graph of ops that a device runs again and again. One run at a time.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // Begins a run: the device may read and write all memory of the graph until Wait returns.
  virtual absl::Status Launch() = 0;
  // Returns when the run has ended. Errors: Internal with the device's message.
  virtual absl::Status Wait() = 0;
};

// An accelerator with memory of its own: "cuda:0". (The CPU is none: its kernels run where they are
// called.) Work is given to it as graphs; ops of one graph that no memory connects run side by
// side. Any thread may call it.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string_view kind() const = 0;  // "cuda"
  virtual int ordinal() const = 0;
  // "cuda:0".
  std::string name() const { return std::string(kind()) + ":" + std::to_string(ordinal()); }
  virtual DeviceInfo info() const = 0;

  // Memory that kernels use. Errors: ResourceExhausted: how many bytes `purpose` asked for, and how
  // many are free.
  virtual absl::StatusOr<DeviceMemory> Allocate(size_t bytes, std::string_view purpose) = 0;
  // Memory of the host that the device copies from and to without help of the CPU.
  virtual absl::StatusOr<DeviceMemory> AllocatePinned(size_t bytes, std::string_view purpose) = 0;
  // Copies to or from memory of the device that no graph uses meanwhile, and waits for it. The
  // other side is memory of the host or of any device of this kind.
  virtual absl::Status CopyToDevice(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status CopyToHost(void* to, const void* from, size_t bytes) = 0;
  // Errors: Internal with the device's message.
  virtual absl::StatusOr<std::unique_ptr<DeviceGraph>> Instantiate(const GraphPlan& plan) = 0;
};

// Opens "cuda:1" or "simulated:0"; a kind alone means its first. Errors: NotFound (no such device
// here), Unimplemented (this build has no such kind), InvalidArgument (no name of a device). They
// say what there is.
absl::StatusOr<std::shared_ptr<Device>> OpenDevice(std::string_view name);

// Returns true if the device kind computes with CPU kernels in the memory of the process.
inline bool IsCpu(std::string_view name) { return name == "cpu" || name.starts_with("cpu:"); }

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_DEVICE_H_
