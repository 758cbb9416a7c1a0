#include <dnnl.h>
#include <hwy/base.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>

#include "common/base/status.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/kernel.h"

namespace cohort {
namespace {

struct KernelEntry {
  std::string_view op;
  KernelFactory create;
};

// In alphabetical order.
constexpr KernelEntry kCpuKernels[] = {
    {"abs", CreateUnaryCpu},
    {"add", CreateBinaryCpu},
    {"argmax", CreateArgmaxCpu},
    {"broadcast_like", CreateBroadcastLikeCpu},
    {"cast", CreateCastCpu},
    {"clip", CreateUnaryCpu},
    {"concat", CreateConcatCpu},
    {"dim_size", CreateDimSizeCpu},
    {"div", CreateBinaryCpu},
    {"dropout", CreateDropoutCpu},
    {"equal", CreateBinaryCpu},
    {"exp", CreateUnaryCpu},
    {"floor", CreateUnaryCpu},
    {"gather", CreateGatherCpu},
    {"gather_grad", CreateGatherGradCpu},
    {"greater", CreateBinaryCpu},
    {"in_top_k", CreateInTopKCpu},
    {"log", CreateUnaryCpu},
    {"log_softmax", CreateSoftmaxCpu},
    {"logical_and", CreateBinaryCpu},
    {"matmul", CreateMatMulCpu},
    {"max_pool", CreatePoolingCpu},
    {"max_pool_grad", CreatePoolingCpu},
    {"maximum", CreateBinaryCpu},
    {"minimum", CreateBinaryCpu},
    {"mul", CreateBinaryCpu},
    {"neg", CreateUnaryCpu},
    {"reduce_max", CreateReduceCpu},
    {"reduce_sum", CreateReduceCpu},
    {"relu", CreateUnaryCpu},
    {"select", CreateSelectCpu},
    {"sigmoid", CreateUnaryCpu},
    {"sigmoid_cross_entropy", CreateSigmoidCrossEntropyCpu},
    {"slice", CreateSliceCpu},
    {"softmax", CreateSoftmaxCpu},
    {"sparse_softmax_cross_entropy", CreateSparseSoftmaxCrossEntropyCpu},
    {"sqrt", CreateUnaryCpu},
    {"square", CreateUnaryCpu},
    {"sub", CreateBinaryCpu},
    {"tanh", CreateUnaryCpu},
    {"transpose", CreateTransposeCpu},
    {"unique", CreateUniqueCpu},
};

// A device kind is a name and its kernels. "cuda" joins here.
struct DeviceKind {
  std::string_view name;
  std::span<const KernelEntry> kernels;
};

constexpr DeviceKind kDeviceKinds[] = {{"cpu", kCpuKernels}};

const DeviceKind* FindDeviceKind(std::string_view name) {
  for (const DeviceKind& kind : kDeviceKinds) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> CreateKernel(const Node& node, const Program& program,
                                                     std::string_view device) {
  const DeviceKind* kind = FindDeviceKind(device);
  if (kind == nullptr) {
    if (device == "cuda") {
      return Unimplemented("this build has no CUDA kernels; use device \"cpu\"");
    }
    return Unimplemented("unknown device kind \"{}\"; this build has \"cpu\"", device);
  }
  const auto entry =
      std::lower_bound(kind->kernels.begin(), kind->kernels.end(), node.op,
                       [](const KernelEntry& e, const std::string& op) { return e.op < op; });
  if (entry == kind->kernels.end() || entry->op != node.op) {
    return Unimplemented("op \"{}\" has no kernel for device \"{}\"", node.op, device);
  }
  return entry->create(node, program);
}

std::vector<std::string_view> KernelOps(std::string_view device) {
  std::vector<std::string_view> ops;
  if (const DeviceKind* kind = FindDeviceKind(device)) {
    for (const KernelEntry& entry : kind->kernels) ops.push_back(entry.op);
  }
  return ops;
}

absl::Status NoKernelFor(const Node& node, DType dtype) {
  return Unimplemented("op \"{}\" has no CPU kernel for {}", node.op, DTypeName(dtype));
}

std::string_view CpuInstructionSet() {
  const int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();
  return hwy::TargetName(best);
}

std::string CpuLibraries() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("onednn {}.{}.{}, highway {}.{}.{}", v->major, v->minor, v->patch, HWY_MAJOR,
                     HWY_MINOR, HWY_PATCH);
}

}  // namespace cohort
