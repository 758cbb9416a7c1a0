#include "common/device/devices.h"

#include <absl/strings/numbers.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/device/cuda/nvml.h"
#include "common/device/simulated_device.h"
#ifdef COHORT_WITH_CUDA
#include "common/device/cuda/cuda_device.h"
#endif

namespace cohort {
namespace {

constexpr int kMostVirtualGpus = 64;
constexpr int kMostMemoryMb = 1 << 30;
constexpr int kMostOrdinal = 1023;  // a larger number is a typing error

struct DeviceName {
  std::string kind;
  int ordinal = 0;
};

absl::StatusOr<DeviceName> ParseDeviceName(std::string_view text) {
  const size_t colon = text.find(':');
  DeviceName name{.kind = std::string(text.substr(0, colon))};
  const bool known = name.kind == "cpu" || name.kind == "cuda" || name.kind == "simulated";
  const std::string_view digits =
      colon == std::string_view::npos ? std::string_view("0") : text.substr(colon + 1);
  const bool is_number = !digits.empty() && std::ranges::all_of(digits, [](char c) {
    return c >= '0' && c <= '9';
  }) && absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &name.ordinal);
  if (known && is_number && name.ordinal <= kMostOrdinal) return name;
  return InvalidArgument("\"{}\" is not the name of a device; there are: {}", text,
                         fmt::join(DeviceNames(), ", "));
}

absl::Status WithFlag(absl::Status status) {
  return WithExitCode(Annotate(std::move(status), "--devices"), ExitCode::kUsage);
}

absl::Status AddOnce(const DeviceName& device, std::vector<std::string>* names) {
  std::string name = fmt::format("{}:{}", device.kind, device.ordinal);
  if (std::ranges::find(*names, name) != names->end()) {
    return WithFlag(InvalidArgument("{} stands there twice", name));
  }
  names->push_back(std::move(name));
  return absl::OkStatus();
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

size_t LimitBytes(const DeviceOptions& options) {
  return static_cast<size_t>(std::max(options.memory_limit_mb, 0)) << 20;
}

absl::StatusOr<std::shared_ptr<Device>> OpenCuda(int ordinal, const DeviceOptions& options) {
#ifdef COHORT_WITH_CUDA
  return OpenCudaDevice(ordinal, {.memory_limit_bytes = LimitBytes(options),
                                  .allow_growth = options.allow_growth,
                                  .devices_per_gpu = options.virtual_gpus,
                                  .allow_tf32 = options.allow_tf32});
#else
  return Unimplemented(
      "cuda:{}: this build has no CUDA kernels; configure it with a CUDA toolkit (13 or later) or "
      "use "
      "--devices=cpu",
      ordinal);
#endif
}

std::shared_ptr<Device> OpenSimulated(int ordinal, const DeviceOptions& options) {
  if (options.memory_limit_mb == 0) return MakeSimulatedDevice(ordinal);
  return MakeSimulatedDevice(ordinal, /*seed=*/1, LimitBytes(options));
}

}  // namespace

void AddDeviceFlags(FlagSet* flags, DeviceOptions* options) {
  flags->Add(
      "devices", &options->devices,
      "devices that compute: cpu, or such as cuda:0,cuda:1; default: all GPUs, else the CPU");
  flags->Add("gpu_memory_limit_mb", &options->memory_limit_mb,
             "MiB of memory that each device may allocate; 0: what it has");
  flags->Add("gpu_allow_growth", &options->allow_growth,
             "allocate GPU memory when it is needed; false: reserve the limit at the start");
  flags->Add("virtual_gpus", &options->virtual_gpus,
             "devices per GPU: with 2, cuda:0 and cuda:1 share the first GPU");
  flags->Add("gpu_tensor_float", &options->allow_tf32,
             "let float32 matrix products use TF32, which is faster and less precise");
}

absl::StatusOr<std::vector<std::string>> ParseDeviceNames(const DeviceOptions& options) {
  COHORT_RETURN_IF_ERROR(CheckBetween("--virtual_gpus", options.virtual_gpus, 1, kMostVirtualGpus));
  COHORT_RETURN_IF_ERROR(
      CheckBetween("--gpu_memory_limit_mb", options.memory_limit_mb, 0, kMostMemoryMb));
  std::vector<std::string> names;
  if (options.devices.empty()) {
    const size_t gpus = DeviceNames().size() - 1;  // without the CPU
    for (size_t i = 0; i < gpus * static_cast<size_t>(options.virtual_gpus); ++i) {
      names.push_back(fmt::format("cuda:{}", i));
    }
    return names;
  }
  for (const std::string_view text : SplitAtCommas(options.devices)) {
    const absl::StatusOr<DeviceName> parsed = ParseDeviceName(text);
    if (!parsed.ok()) return WithFlag(parsed.status());
    COHORT_RETURN_IF_ERROR(AddOnce(*parsed, &names));
  }
  if (std::ranges::none_of(names, IsCpu)) return names;
  if (names.size() > 1) {
    return WithFlag(InvalidArgument("the CPU cannot compute beside other devices: name either"));
  }
  return std::vector<std::string>();
}

absl::StatusOr<std::vector<std::string>> ParseReplicaDevices(const DeviceOptions& options) {
  const std::vector<std::string_view> texts = SplitAtCommas(options.devices);
  if (options.devices.empty() || !std::ranges::all_of(texts, IsCpu)) {
    COHORT_ASSIGN_OR_RETURN(std::vector<std::string> names, ParseDeviceNames(options));
    if (names.empty()) names = {"cpu:0"};
    return names;
  }
  std::vector<std::string> names;
  for (const std::string_view text : texts) {
    const absl::StatusOr<DeviceName> parsed = ParseDeviceName(text);
    if (!parsed.ok()) return WithFlag(parsed.status());
    COHORT_RETURN_IF_ERROR(AddOnce(*parsed, &names));
  }
  return names;
}

std::vector<std::string> DeviceFlags(std::string_view device, const DeviceOptions& options) {
  if (IsCpu(device)) return {"--devices=cpu"};
  return {fmt::format("--devices={}", device),
          fmt::format("--gpu_memory_limit_mb={}", options.memory_limit_mb),
          fmt::format("--gpu_allow_growth={}", options.allow_growth),
          fmt::format("--virtual_gpus={}", options.virtual_gpus),
          fmt::format("--gpu_tensor_float={}", options.allow_tf32)};
}

absl::StatusOr<std::shared_ptr<Device>> OpenDevice(std::string_view text,
                                                   const DeviceOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const DeviceName name, ParseDeviceName(text));
  if (name.kind == "cuda") return OpenCuda(name.ordinal, options);
  if (name.kind == "simulated") return OpenSimulated(name.ordinal, options);
  return InvalidArgument("{} is not opened: its kernels run where they are called", text);
}

absl::StatusOr<std::shared_ptr<Device>> OpenDevice(std::string_view name) {
  return OpenDevice(name, {});
}

absl::StatusOr<std::vector<std::shared_ptr<Device>>> OpenDevices(const DeviceOptions& options) {
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> names, ParseDeviceNames(options));
  std::vector<std::shared_ptr<Device>> devices;
  for (const std::string& name : names) {
    COHORT_ASSIGN_OR_RETURN(std::shared_ptr<Device> device, OpenDevice(name, options));
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names = {"cpu"};
#ifdef COHORT_WITH_CUDA
  const int count = CudaDeviceCount();
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("cuda:{}", i));
#endif
  return names;
}

GpuSupport FindGpuSupport() {
  GpuSupport support;
#ifdef COHORT_WITH_CUDA
  support.toolkit = CudaToolkitVersion();
#endif
  if (const std::optional<GpuDriver> driver = FindGpuDriver()) {
    support.driver = driver->version;
    support.driver_cuda = driver->cuda_version;
    support.gpus = driver->gpus;
  }
  return support;
}

std::optional<DeviceUsage> UsageOf(const Device& device, int virtual_gpus) {
#ifdef COHORT_WITH_CUDA
  if (device.kind() != "cuda") return std::nullopt;
  const auto usage = UsageOfGpu(CudaPciAddress(device.ordinal() / virtual_gpus));
  if (usage.has_value())
    return DeviceUsage{usage->utilization, usage->used_bytes, usage->total_bytes};
#endif
  return std::nullopt;
}

}  // namespace cohort
