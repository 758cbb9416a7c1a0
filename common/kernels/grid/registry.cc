#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

struct Entry {
  std::string_view op;
  DeviceKernelOr (*create)(const Node& node, const Program& program);
};

constexpr Entry kKernels[] = {
#define OP(name, schema, cpu, grid, form, doc) {#name, Create##grid},
#include "common/graph/ops.def"
};

}  // namespace

DeviceKernelOr CreateNone(const Node& node, const Program&) {
  return Unimplemented("op \"{}\" has no kernel for devices", node.op);
}

DeviceKernelOr CreateGridKernel(const Node& node, const Program& program) {
  const auto entry = std::ranges::lower_bound(kKernels, node.op, {}, &Entry::op);
  if (entry == std::end(kKernels) || entry->op != node.op) return CreateNone(node, program);
  return entry->create(node, program);
}

}  // namespace cohort::COHORT_GRID
