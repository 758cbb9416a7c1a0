// gather: rows[U, ...], index[...] -> [index..., ...].
#include <cstring>

#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

class GatherKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    const ValueView& rows = c.in(0);
    const int64_t* index = c.in(1).as<int64_t>();
    const int64_t n = c.in(1).elements;
    size_t row_bytes = SizeOf(rows.dtype);
    for (int i = 1; i < rows.rank; ++i) row_bytes *= static_cast<size_t>(rows.dims[i]);
    const uint64_t count = static_cast<uint64_t>(rows.dims[0]);
    const uint8_t* from = rows.as<uint8_t>();
    uint8_t* to = c.out().as<uint8_t>();
    for (int64_t i = 0; i < n; ++i, to += row_bytes) {
      const uint64_t row = static_cast<uint64_t>(index[i]);  // a negative one is too large
      if (row >= count) {
        return InvalidArgument("index {} at position {} does not lie in [0, {})", index[i], i,
                               count);
      }
      std::memcpy(to, from + row * row_bytes, row_bytes);
    }
    return absl::OkStatus();
  }
};

}  // namespace

KernelOr CreateGatherCpu(const Node& node, const Program& program) {
  const DType index = program.type(node.inputs[1]).dtype;
  if (index != DType::kInt64) return NoKernelFor(node, index);
  return std::make_unique<GatherKernel>();
}

}  // namespace cohort
