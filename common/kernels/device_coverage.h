#ifndef COHORT_COMMON_KERNELS_DEVICE_COVERAGE_H_
#define COHORT_COMMON_KERNELS_DEVICE_COVERAGE_H_

#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/graph/program.h"

namespace cohort {

// An op of a program that runs on the CPU if the program runs on a device, because no kernel of
// devices is there for it. Its values are copied to the host and back in each step.
struct OpOnCpu {
  std::string op;
  std::string dtype;             // what its first input has, or its output
  std::set<std::string> layers;  // names of its nodes
};

// Returns them by op and dtype. Keys are made unique on the CPU always, before a step, and do not
// count. All kinds of devices have the same kernels (grid/registry.cc).
std::vector<OpOnCpu> OpsOnCpu(std::span<const Program> programs);

// The line of `cohort check` about them, without its end.
std::string DeviceCoverageText(std::span<const Program> programs);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_DEVICE_COVERAGE_H_
