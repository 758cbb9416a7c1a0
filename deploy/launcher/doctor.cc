#include "deploy/launcher/doctor.h"

#include <fmt/ostream.h>

#include <algorithm>
#include <charconv>
#include <ostream>
#include <string_view>

#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/device/check_device.h"
#include "common/kernels/kernel.h"
#include "common/placement/shard_plan.h"
#include "common/weights/weight_source.h"

namespace cohort {
namespace {

constexpr char kInstallCuda[] =
    "This build computes on the CPU only. To use GPUs, install NVIDIA's CUDA toolkit (13 or "
    "later), then "
    "configure and build Cohort again.";
constexpr char kInstallHdf5[] =
    "This build cannot read the HDF5 files (.h5) of Keras. To read them, install libhdf5-dev "
    "(deploy/install_dependencies.sh does), then configure and build Cohort again.";

DeviceFacts ExamineDevice(const std::string& name, const DeviceOptions& options) {
  DeviceFacts facts{.name = name};
  const auto device = OpenDevice(name, options);
  facts.status = device.status();
  if (!device.ok()) return facts;
  facts.info = (*device)->info();
  facts.usage = UsageOf(**device, options.virtual_gpus);
  facts.status = CheckDevice(device->get());
  return facts;
}

absl::StatusOr<std::vector<std::string>> NamesToExamine(const DeviceOptions& options,
                                                        const GpuSupport& gpu) {
  COHORT_ASSIGN_OR_RETURN(std::vector<std::string> names, ParseDeviceNames(options));
  if (names.empty() && options.devices.empty() && !gpu.toolkit.empty()) names = {"cuda:0"};
  return names;
}

std::string Size(size_t bytes) { return FormatBytes(static_cast<int64_t>(bytes)); }

std::string DriverText(const GpuSupport& gpu) {
  if (gpu.driver.empty()) return "none";
  return fmt::format("{}, which runs CUDA up to {}; GPUs: {}", gpu.driver, gpu.driver_cuda,
                     gpu.gpus);
}

std::string DeviceText(const DeviceFacts& device) {
  std::string text = device.info.model;
  if (!device.info.capability.empty()) {
    text += fmt::format(", compute capability {}", device.info.capability);
  }
  if (device.info.memory_bytes > 0) {
    text += fmt::format(", {} of {} free", Size(device.info.free_bytes),
                        Size(device.info.memory_bytes));
  }
  if (device.usage.has_value()) {
    text += fmt::format(", {:.0f} % busy", 100 * device.usage->utilization);
  }
  if (!text.empty()) text += ": ";
  if (device.status.ok()) return text + "works";
  const absl::string_view why = device.status.message();
  return fmt::format("{}fails: {}", text, std::string_view(why.data(), why.size()));
}

bool Fails(const DeviceFacts& device) { return !device.status.ok(); }

bool IsGpu(const DeviceFacts& device) { return device.name.starts_with("cuda"); }

int MajorOf(std::string_view version) {
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  return major;
}

// Returns what keeps CUDA from the machine's GPUs; "" if nothing is known.
std::string DriverAdvice(const GpuSupport& gpu) {
  if (gpu.driver.empty()) {
    return fmt::format(
        "No NVIDIA driver answers. Install one that runs CUDA {} or later. In a container, give it "
        "the "
        "GPUs of the host (docker run --gpus all).",
        gpu.toolkit);
  }
  // Drivers run all minor versions of the major version that they know.
  if (MajorOf(gpu.driver_cuda) < MajorOf(gpu.toolkit)) {
    return fmt::format(
        "The driver {} runs CUDA up to {}, but this build needs {}. Install a newer driver, or "
        "build "
        "Cohort with an older toolkit, if it is 13 or later.",
        gpu.driver, gpu.driver_cuda, gpu.toolkit);
  }
  if (gpu.gpus == 0)
    return "The driver finds no GPU. Check that one is installed (nvidia-smi, lspci).";
  return "";
}

// Returns what to do about the GPUs that do not work.
std::string GpuAdvice(const DoctorFacts& facts) {
  const std::string driver = DriverAdvice(facts.gpu);
  if (!driver.empty()) return driver;
  const bool lacks_library = std::ranges::any_of(facts.devices, [](const DeviceFacts& d) {
    return IsGpu(d) && absl::IsUnimplemented(d.status);
  });
  if (lacks_library) {
    return "The driver works, but a library of the CUDA toolkit lacks: the line of the device "
           "names it.";
  }
  return "The driver works, but a device does not. Check CUDA_VISIBLE_DEVICES, the memory that "
         "other "
         "processes use (nvidia-smi), and the kernel's log (dmesg | grep -i nvrm).";
}

std::vector<std::string> Advice(const DoctorFacts& facts) {
  std::vector<std::string> advice;
  const bool wants_cuda = std::ranges::any_of(facts.devices, IsGpu) || facts.gpu.gpus > 0;
  if (facts.gpu.toolkit.empty() && wants_cuda) {
    advice.emplace_back(kInstallCuda);
  } else if (std::ranges::any_of(facts.devices,
                                 [](const DeviceFacts& d) { return IsGpu(d) && Fails(d); })) {
    advice.push_back(GpuAdvice(facts));
    advice.emplace_back("Until then, use --devices=cpu.");
  }
  if (!facts.reads_hdf5) advice.emplace_back(kInstallHdf5);
  return advice;
}

}  // namespace

absl::StatusOr<DoctorFacts> Examine(const DeviceOptions& options) {
  DoctorFacts facts;
  facts.instruction_set = std::string(CpuInstructionSet());
  facts.libraries = CpuLibraries();
  facts.reads_hdf5 = ReadsHdf5();
  facts.gpu = FindGpuSupport();
  COHORT_ASSIGN_OR_RETURN(const auto names, NamesToExamine(options, facts.gpu));
  for (const std::string& name : names) facts.devices.push_back(ExamineDevice(name, options));
  return facts;
}

ExitCode WriteDiagnosis(const DoctorFacts& facts, std::ostream& out) {
  fmt::print(out, "cohort:   {}\n", CohortVersion());
  fmt::print(out, "cpu:      {}; {}\n", facts.instruction_set, facts.libraries);
  fmt::print(out, "hdf5:     {}\n", facts.reads_hdf5 ? "yes" : "no");
  fmt::print(out, "tls:      yes\n");
  fmt::print(out, "toolkit:  {}\n",
             facts.gpu.toolkit.empty() ? "without CUDA" : "CUDA " + facts.gpu.toolkit);
  fmt::print(out, "driver:   {}\n", DriverText(facts.gpu));
  fmt::print(out, "devices:\n  cpu: works\n");
  for (const DeviceFacts& device : facts.devices) {
    fmt::print(out, "  {}: {}\n", device.name, DeviceText(device));
  }
  out << "\n";
  for (const std::string& sentence : Advice(facts)) out << sentence << "\n";
  if (std::ranges::any_of(facts.devices, Fails)) return ExitCode::kUnavailable;
  out << "Everything that this build supports works here.\n";
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Doctor(const DeviceOptions& options, std::ostream& out) {
  COHORT_ASSIGN_OR_RETURN(const DoctorFacts facts, Examine(options));
  return WriteDiagnosis(facts, out);
}

}  // namespace cohort
