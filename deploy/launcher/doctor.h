#ifndef COHORT_DEPLOY_LAUNCHER_DOCTOR_H_
#define COHORT_DEPLOY_LAUNCHER_DOCTOR_H_

#include <absl/status/statusor.h>

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/base/exit_code.h"
#include "common/device/devices.h"

namespace cohort {

// A device as `cohort doctor` found it.
struct DeviceFacts {
  std::string name;  // "cuda:0"
  DeviceInfo info;
  std::optional<DeviceUsage> usage;
  absl::Status status;  // why it cannot be opened, or what its test reports
};

// What this build and this machine offer.
struct DoctorFacts {
  std::string instruction_set;  // CpuInstructionSet(): "avx2"
  std::string libraries;        // CpuLibraries(): "onednn 2.6.3, highway 1.0.3"
  bool reads_hdf5 = false;
  GpuSupport gpu;
  std::vector<DeviceFacts> devices;  // without the CPU
};

// Collects the facts, and opens and tests the devices that `options` names. If it names none: all
// GPUs that this build can use; if there is none, and the build has CUDA, cuda:0, for its error.
// Errors: those of ParseDeviceNames.
absl::StatusOr<DoctorFacts> Examine(const DeviceOptions& options);

// Writes the facts, a line each, and then what to install or change, in sentences. Returns 0 if all
// devices work, else 169.
ExitCode WriteDiagnosis(const DoctorFacts& facts, std::ostream& out);

// `cohort doctor`: examines this machine, and writes to `out`. Returns the exit code of the
// process.
absl::StatusOr<ExitCode> Doctor(const DeviceOptions& options, std::ostream& out);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_DOCTOR_H_
