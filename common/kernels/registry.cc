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

constexpr KernelEntry kCpuKernels[] = {
#define OP(name, schema, cpu, grid, form, doc) {#name, Create##cpu##Cpu},
#include "common/graph/ops.def"
};

}  // namespace

KernelOr CreateNoneCpu(const Node& node, const Program&) {
  return Unimplemented("op \"{}\" has no CPU kernel", node.op);
}

KernelOr CreateKernel(const Node& node, const Program& program) {
  const auto entry = std::ranges::lower_bound(kCpuKernels, node.op, {}, &KernelEntry::op);
  if (entry == std::end(kCpuKernels) || entry->op != node.op) return CreateNoneCpu(node, program);
  return RoundOperands(node, program, entry->create(node, program));
}

std::vector<std::string_view> KernelOps() {
  std::vector<std::string_view> ops;
  for (const KernelEntry& entry : kCpuKernels) {
    if (entry.create != CreateNoneCpu) ops.push_back(entry.op);
  }
  return ops;
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
