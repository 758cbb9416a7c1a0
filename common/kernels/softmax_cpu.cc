// softmax log_softmax of float32, by the vector code of float_math.h. float64 runs by the body of
// devices.
#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"

namespace cohort {
namespace {

class SoftmaxKernel : public Kernel {
 public:
  explicit SoftmaxKernel(bool log) : rows_(log ? LogSoftmaxRowsFloat : SoftmaxRowsFloat) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    const int64_t n = in.dims[in.rank - 1];
    if (in.elements == 0) return absl::OkStatus();
    c.pool->ParallelFor(in.elements / n, RowGrain(n * 8), [&](int64_t begin, int64_t end) {
      rows_(in.as<float>() + begin * n, c.out().as<float>() + begin * n, end - begin, n);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }

 private:
  void (*const rows_)(const float* x, float* y, int64_t rows, int64_t n);
};

}  // namespace

KernelOr CreateSoftmaxCpu(const Node& node, const Program& program) {
  if (program.type(node.inputs[0]).dtype != DType::kFloat32) return CreateGridCpu(node, program);
  return std::make_unique<SoftmaxKernel>(node.op == "log_softmax");
}

}  // namespace cohort
