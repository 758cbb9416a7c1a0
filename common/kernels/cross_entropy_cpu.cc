// sigmoid_cross_entropy and sparse_softmax_cross_entropy of float32, by the vector code of
// float_math.h. float64 runs by the body of devices.
#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"

namespace cohort {
namespace {

class SigmoidCrossEntropyKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    c.pool->ParallelFor(c.out().elements, kElementGrain / 8, [&](int64_t begin, int64_t end) {
      SigmoidCrossEntropyFloat(c.in(0).as<float>() + begin, c.in(1).as<float>() + begin,
                               c.out().as<float>() + begin, end - begin);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }
};

class SparseSoftmaxCrossEntropyKernel : public Kernel {
 public:
  absl::Status Run(const KernelContext& c) const override {
    const int64_t* labels = c.in(0).as<int64_t>();
    const float* logits = c.in(1).as<float>();
    const int64_t rows = c.in(1).dims[0], n = c.in(1).dims[1];
    float* y = c.out().as<float>();
    for (int64_t r = 0; r < rows; ++r) {
      if (labels[r] < 0 || labels[r] >= n) {
        return InvalidArgument("label {} of example {} does not lie in [0, {})", labels[r], r, n);
      }
    }
    c.pool->ParallelFor(rows, RowGrain(8 * n), [&](int64_t begin, int64_t end) {
      LogSumExpRowsFloat(logits + begin * n, y + begin, end - begin, n);
      for (int64_t r = begin; r < end; ++r) y[r] -= logits[r * n + labels[r]];
    });
    return absl::OkStatus();
  }
};

}  // namespace

KernelOr CreateCrossEntropyCpu(const Node& node, const Program& program) {
  if (program.type(node.inputs[1]).dtype != DType::kFloat32) return CreateGridCpu(node, program);
  if (node.op == "sigmoid_cross_entropy") return std::make_unique<SigmoidCrossEntropyKernel>();
  return std::make_unique<SparseSoftmaxCrossEntropyKernel>();
}

}  // namespace cohort
