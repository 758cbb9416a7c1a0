#include "common/device/cuda/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace cohort {
namespace {

// The part of <nvml.h> that is used here; the library keeps it compatible.
constexpr int kNvmlSuccess = 0;
using NvmlDevice = struct NvmlDeviceHandle*;
struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};
struct NvmlMemory {
  unsigned long long total, free, used;  // bytes
};

// The library between its initialization and its shutdown. Its functions return 0 for success.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ != nullptr) initialized_ = Call<>("nvmlInit_v2");
  }
  ~Nvml() {
    if (initialized_) Call<>("nvmlShutdown");
    if (library_ != nullptr) dlclose(library_);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  bool initialized() const { return initialized_; }

  // Returns true if the library has the function and it succeeds.
  template <typename... Parameters>
  bool Call(const char* function, Parameters... arguments) const {
    const auto found = reinterpret_cast<int (*)(Parameters...)>(dlsym(library_, function));
    return found != nullptr && found(arguments...) == kNvmlSuccess;
  }

 private:
  void* const library_;
  bool initialized_ = false;
};

}  // namespace

std::optional<GpuDriver> FindGpuDriver() {
  const Nvml nvml;
  if (!nvml.initialized()) return std::nullopt;
  GpuDriver driver;
  char version[81] = {};
  if (nvml.Call("nvmlSystemGetDriverVersion", static_cast<char*>(version),
                static_cast<unsigned>(sizeof(version) - 1))) {
    driver.version = version;
  }
  int cuda = 0;
  if (nvml.Call("nvmlSystemGetCudaDriverVersion_v2", &cuda)) {
    driver.cuda_version = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
  }
  unsigned gpus = 0;
  if (nvml.Call("nvmlDeviceGetCount_v2", &gpus)) driver.gpus = static_cast<int>(gpus);
  return driver;
}

std::optional<GpuUsage> UsageOfGpu(const std::string& pci_address) {
  const Nvml nvml;
  NvmlDevice device = nullptr;
  NvmlMemory memory = {};
  if (!nvml.initialized() ||
      !nvml.Call("nvmlDeviceGetHandleByPciBusId_v2", pci_address.c_str(), &device) ||
      !nvml.Call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    return std::nullopt;
  }
  NvmlUtilization utilization = {};  // stays 0 where the GPU is divided (MIG): it cannot tell then
  nvml.Call("nvmlDeviceGetUtilizationRates", device, &utilization);
  return GpuUsage{utilization.gpu / 100.0, memory.used, memory.total};
}

}  // namespace cohort
