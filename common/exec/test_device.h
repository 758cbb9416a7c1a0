#ifndef COHORT_COMMON_EXEC_TEST_DEVICE_H_
#define COHORT_COMMON_EXEC_TEST_DEVICE_H_

#include <catch2/catch.hpp>
#include <cstdlib>

#include "common/device/devices.h"
#include "common/exec/executable.h"

namespace cohort::testing {

// The options of tests that run on any device: on those that COHORT_TEST_DEVICE names, "cuda:0" or
// "simulated:0,simulated:1", else on the CPU.
inline CompileOptions OnTestDevice(CompileOptions options = {}) {
  const char* name = std::getenv("COHORT_TEST_DEVICE");
  if (name == nullptr || IsCpu(name)) return options;
  static const auto devices = OpenDevices({.devices = name});
  INFO(devices.status());
  REQUIRE(devices.ok());
  options.devices = *devices;
  return options;
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_EXEC_TEST_DEVICE_H_
