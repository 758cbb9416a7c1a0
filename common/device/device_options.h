#ifndef COHORT_COMMON_DEVICE_DEVICE_OPTIONS_H_
#define COHORT_COMMON_DEVICE_DEVICE_OPTIONS_H_

#include <string>

namespace cohort {

// The flags with which a process chooses its devices (devices.h).
struct DeviceOptions {
  std::string devices;       // "cuda:0,cuda:1"; "cpu"; "": all GPUs, without any the CPU
  int memory_limit_mb = 0;   // MiB that each device may allocate; 0: what it has
  bool allow_growth = true;  // else a device reserves its limit when it is opened
  int virtual_gpus = 1;      // devices per GPU: device i is on GPU i / virtual_gpus
  bool allow_tf32 = false;   // float32 products may use tensor cores, with less precision
};

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_DEVICE_OPTIONS_H_
