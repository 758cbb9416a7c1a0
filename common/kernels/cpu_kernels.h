#ifndef COHORT_COMMON_KERNELS_CPU_KERNELS_H_
#define COHORT_COMMON_KERNELS_CPU_KERNELS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <utility>

#include "common/graph/op_registry.h"
#include "common/graph/program.h"
#include "common/kernels/kernel.h"

namespace cohort {

class DeviceKernel;

// Makes the kernel of one node. Called once per node when a program is compiled.
using KernelFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const Node& node,
                                                                  const Program& program);
using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// The factories of the CPU, one per op or family: those of the column `cpu` of ops.def. CreateXCpu
// is defined in the file named like it. The CPU kernel of an op is its specification; other devices
// are tested against it.
#define OP(name, schema, cpu, grid, form, doc) \
  KernelOr Create##cpu##Cpu(const Node& node, const Program& program);
#include "common/graph/ops.def"

// The kernel of the CPU that runs the bodies of one for devices; passes an error on.
KernelOr OnCpu(absl::StatusOr<std::unique_ptr<DeviceKernel>> kernel);

// The kernel of a node whose attribute `precision` rounds its operands, from that of the float32
// product. Returns `product` itself if the node does not.
KernelOr RoundOperands(const Node& node, const Program& program, KernelOr product);

// Unimplemented, naming op and dtype.
inline absl::Status NoKernelFor(const Node& node, DType dtype) {
  return Unimplemented("op \"{}\" has no CPU kernel for {}", node.op, DTypeName(dtype));
}

// Calls fn with a value of the C++ type of a floating dtype and returns what it returns.
template <typename Fn>
KernelOr ForFloating(const Node& node, DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat32) return fn(float{});
  if (dtype == DType::kFloat64) return fn(double{});
  return NoKernelFor(node, dtype);
}

// Elements of work below which an op is not worth splitting over threads.
inline constexpr int64_t kElementGrain = 16384;
// Rows of `row_elements` that make one grain of work.
constexpr int64_t RowGrain(int64_t row_elements, int64_t grain = kElementGrain) {
  return row_elements >= grain ? 1 : grain / (row_elements > 0 ? row_elements : 1);
}

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_CPU_KERNELS_H_
