// Measures what a device can do at most, beside which tests/gpu/run.sh puts its steps: the product
// of two large float32 matrices, and a large copy within its memory. Prints one line: GFLOP/s, then
// GB/s of bytes read and written.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "common/base/exit_code.h"
#include "common/base/flags.h"
#include "common/base/status.h"
#include "common/device/devices.h"
#include "common/optimizers/variable_ops.h"

namespace cohort {
namespace {

constexpr int kOpsPerGraph = 10;  // one after another, so that the launch does not count
constexpr int kRuns = 5;          // the best counts
constexpr char kPurpose[] = "the measurement";

struct LimitsOptions {
  DeviceOptions devices;
  int rows = 8192;     // each matrix has them, and as many columns
  int copy_mb = 1024;  // MiB
};

absl::StatusOr<double> BestSeconds(Device* device, const GraphPlan& plan) {
  COHORT_ASSIGN_OR_RETURN(const auto graph, device->Instantiate(plan));
  double best = 1e30;
  for (int run = 0; run <= kRuns; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    COHORT_RETURN_IF_ERROR(graph->Launch());
    COHORT_RETURN_IF_ERROR(graph->Wait());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (run > 0) best = std::min(best, seconds.count() / kOpsPerGraph);  // the first one warms up
  }
  return best;
}

absl::StatusOr<double> ProductFlops(Device* device, int64_t rows) {
  const size_t bytes = static_cast<size_t>(rows * rows) * sizeof(float);
  COHORT_ASSIGN_OR_RETURN(const DeviceMemory memory, device->Allocate(3 * bytes, kPurpose));
  const std::vector<float> zeros(static_cast<size_t>(2 * rows * rows));
  COHORT_RETURN_IF_ERROR(device->CopyToDevice(memory.data(), zeros.data(), 2 * bytes));
  uint8_t* const a = memory.data();
  GraphPlan plan;
  plan.Begin("product", {{a, 2 * bytes}}, {{a + 2 * bytes, bytes}});
  for (int i = 0; i < kOpsPerGraph; ++i) {
    plan.Add(MatrixProduct{.dtype = DType::kFloat32,
                           .a = a,
                           .b = a + bytes,
                           .c = a + 2 * bytes,
                           .m = rows,
                           .n = rows,
                           .k = rows});
  }
  COHORT_ASSIGN_OR_RETURN(const double seconds, BestSeconds(device, plan));
  return 2.0 * static_cast<double>(rows * rows) * static_cast<double>(rows) / seconds;
}

absl::StatusOr<double> CopyBytesPerSecond(Device* device, size_t bytes) {
  COHORT_ASSIGN_OR_RETURN(const DeviceMemory from, device->Allocate(bytes, kPurpose));
  COHORT_ASSIGN_OR_RETURN(const DeviceMemory to, device->Allocate(bytes, kPurpose));
  COHORT_ASSIGN_OR_RETURN(const VariableOps* ops, VariableOps::Of(device->kind()));
  const DeviceVariable variable = {.name = "from",
                                   .dtype = DType::kFloat64,
                                   .rows = static_cast<int64_t>(bytes / sizeof(double)),
                                   .value = from.data()};
  COHORT_ASSIGN_OR_RETURN(const auto copy, ops->ReadRows(variable, {}, to.data()));
  COHORT_ASSIGN_OR_RETURN(const DeviceMemory body, device->Allocate(copy->body_bytes(), kPurpose));
  COHORT_ASSIGN_OR_RETURN(const DeviceMemory staged,
                          device->AllocatePinned(copy->body_bytes(), kPurpose));
  copy->WriteBody({}, staged.data());
  COHORT_RETURN_IF_ERROR(device->CopyToDevice(body.data(), staged.data(), staged.bytes()));
  GraphPlan plan;
  for (int i = 0; i < kOpsPerGraph; ++i) copy->AddTo(&plan, body.data());
  COHORT_ASSIGN_OR_RETURN(const double seconds, BestSeconds(device, plan));
  return 2 * static_cast<double>(bytes) / seconds;
}

absl::Status Measure(const LimitsOptions& options) {
  COHORT_RETURN_IF_ERROR(CheckBetween("--rows", options.rows, 1, 1 << 15));
  COHORT_RETURN_IF_ERROR(CheckBetween("--copy_mb", options.copy_mb, 1, 1 << 14));
  COHORT_ASSIGN_OR_RETURN(const auto devices, OpenDevices(options.devices));
  if (devices.size() != 1) return InvalidArgument("--devices must name one device with memory");
  COHORT_ASSIGN_OR_RETURN(const double flops, ProductFlops(devices[0].get(), options.rows));
  COHORT_ASSIGN_OR_RETURN(
      const double bytes,
      CopyBytesPerSecond(devices[0].get(), static_cast<size_t>(options.copy_mb) << 20));
  fmt::print("{:.1f} {:.1f}\n", flops / 1e9, bytes / 1e9);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
  using namespace cohort;
  LimitsOptions options;
  FlagSet flags("device_limits", "Measures the largest FLOP/s and memory bandwidth of a device.");
  AddDeviceFlags(&flags, &options.devices);
  flags.Add("rows", &options.rows, "rows and columns of the matrices");
  flags.Add("copy_mb", &options.copy_mb, "MiB that are copied");
  if (const auto exit = flags.ParseOrExit(argc, argv)) return *exit;
  return ExitWith("device_limits", Measure(options));
}
