// exp log sigmoid tanh erf softplus of float32, by the vector code of float_math.h. float64 runs by
// the body of devices.
#include <algorithm>

#include "common/base/thread_pool.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/float_math.h"

namespace cohort {
namespace {

using Loop = void (*)(const float* x, float* y, int64_t n);

struct NamedLoop {
  std::string_view op;
  Loop loop;
};
constexpr NamedLoop kLoops[] = {{"exp", ExpFloat},         {"log", LogFloat},
                                {"sigmoid", SigmoidFloat}, {"tanh", TanhFloat},
                                {"erf", ErfFloat},         {"softplus", SoftplusFloat}};

class FloatMathKernel : public Kernel {
 public:
  explicit FloatMathKernel(Loop loop) : loop_(loop) {}
  absl::Status Run(const KernelContext& c) const override {
    const float* x = c.in(0).as<float>();
    float* y = c.out().as<float>();
    c.pool->ParallelFor(c.in(0).elements, kElementGrain / 8, [&](int64_t begin, int64_t end) {
      loop_(x + begin, y + begin, end - begin);
    });
    return absl::OkStatus();
  }
  bool in_place(size_t) const override { return true; }

 private:
  const Loop loop_;
};

}  // namespace

KernelOr CreateFloatMathCpu(const Node& node, const Program& program) {
  if (program.type(node.inputs[0]).dtype != DType::kFloat32) return CreateGridCpu(node, program);
  return std::make_unique<FloatMathKernel>(
      std::ranges::find(kLoops, node.op, &NamedLoop::op)->loop);
}

}  // namespace cohort
