// cohort-doctor: what `cohort doctor` becomes. A program of its own, because `cohort` starts faster
// without the kernels and CUDA's libraries.
#include <sstream>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/prepare_process.h"
#include "deploy/launcher/doctor.h"

int main(int argc, char** argv) {
  using namespace cohort;
  PrepareProcess("cohort");
  DeviceOptions options;
  FlagSet flags(
      "cohort-doctor",
      "Prints what this build and this machine offer, and what lacks. Tests the devices: all GPUs, "
      "unless --devices names some.");
  AddDeviceFlags(&flags, &options);
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  std::ostringstream text;
  const absl::StatusOr<ExitCode> code = Doctor(options, text);
  if (!code.ok()) return ExitWith("cohort", code.status());
  const absl::Status written = WriteToStdout(text.str());
  return written.ok() ? static_cast<int>(*code) : ExitWith("cohort", written);
}
