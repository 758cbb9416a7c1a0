#include "common/device/check_device.h"

#include <array>
#include <memory>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr int kRuns = 2;
constexpr char kPurpose[] = "the test of the device";

// a[2,3] b[3,2] = c[2,2]
constexpr std::array<float, 6> kA = {1, 2, 3, 4, 5, 6};
constexpr std::array<float, 6> kB = {1, 0, 0, 1, 1, 1};
constexpr std::array<float, 4> kC = {4, 5, 10, 11};

// The same layout on the host and on the device.
struct Values {
  std::array<float, 6> a, b;
  std::array<float, 4> c;
};

void AddOps(Values* host, Values* device, std::array<float, 4>* seen, GraphPlan* plan) {
  plan->AddCopy("upload a", {&device->a, &host->a, sizeof(host->a), /*to_device=*/true});
  plan->AddCopy("upload b", {&device->b, &host->b, sizeof(host->b), /*to_device=*/true});
  plan->Begin("multiply", {{&device->a, sizeof(device->a)}, {&device->b, sizeof(device->b)}},
              {{&device->c, sizeof(device->c)}});
  plan->Add(MatrixProduct{.dtype = DType::kFloat32,
                          .a = &device->a,
                          .b = &device->b,
                          .c = &device->c,
                          .m = 2,
                          .n = 2,
                          .k = 3});
  plan->AddCopy("download c", {&host->c, &device->c, sizeof(host->c), /*to_device=*/false});
  plan->Begin("look at c", {{&host->c, sizeof(host->c)}}, {{seen, sizeof(*seen)}});
  plan->Add(HostCall{[host, seen] { *seen = host->c; }});
}

}  // namespace

absl::Status CheckDevice(Device* device) {
  COHORT_ASSIGN_OR_RETURN(const DeviceMemory pinned,
                          device->AllocatePinned(sizeof(Values), kPurpose));
  COHORT_ASSIGN_OR_RETURN(const DeviceMemory memory, device->Allocate(sizeof(Values), kPurpose));
  auto* const host = reinterpret_cast<Values*>(pinned.data());
  std::array<float, 4> seen = {};
  GraphPlan plan;
  AddOps(host, reinterpret_cast<Values*>(memory.data()), &seen, &plan);
  COHORT_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceGraph> graph, device->Instantiate(plan));
  for (int run = 0; run < kRuns; ++run) {
    *host = {kA, kB, {}};
    seen = {};
    COHORT_RETURN_IF_ERROR(graph->Launch());
    COHORT_RETURN_IF_ERROR(graph->Wait());
    if (seen != kC) {
      return Internal("{} computes a wrong matrix product: {} {} {} {} instead of 4 5 10 11",
                      device->name(), seen[0], seen[1], seen[2], seen[3]);
    }
  }
  return absl::OkStatus();
}

}  // namespace cohort
