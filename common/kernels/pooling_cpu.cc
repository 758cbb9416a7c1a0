// max_pool: x[batch, steps, channels] -> [batch, windows, channels]: the maximum of each window.
// max_pool: (x, values) -> the element of `values` at the place of the first maximum of each window
// of x. Its place is that of the gradient, as in TensorFlow on a CPU.
// max_pool_grad: (grad, x) -> like x: the sums of `grad` at these places, in order of the windows.
//
// Padding is never a maximum, because every window covers an element. A NaN is a maximum.
#include <algorithm>

#include "common/graph/ops/pooling.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/thread_pool.h"

namespace cohort {
namespace {

using ops::PoolAxis;

template <typename T>
class MaxPoolKernel : public Kernel {
 public:
  explicit MaxPoolKernel(const PoolAxis& steps) : steps_(steps) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    if (in.elements == 0) return absl::OkStatus();
    const int64_t channels = in.dims[2];
    const int64_t grain = RowGrain(channels * std::min(steps_.window, steps_.in));
    c.pool->ParallelFor(in.dims[0] * steps_.out, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* __restrict x = in.as<T>() + row / steps_.out * steps_.in * channels;
        T* __restrict y = c.out().as<T>() + row * channels;
        const int64_t first = steps_.begin(row % steps_.out);
        const int64_t last = steps_.end(row % steps_.out);
        std::copy_n(x + first * channels, channels, y);
        for (int64_t step = first + 1; step < last; ++step) {
          const T* __restrict from = x + step * channels;
          for (int64_t i = 0; i < channels; ++i) {
            y[i] = y[i] > from[i] || y[i] != y[i] ? y[i] : from[i];
          }
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const PoolAxis steps_;
};

// Calls fn(offset in the output, offset in x) for the first maximum of each window of the examples
// [begin, end), in order of the output.
template <typename T, typename Fn>
void ForEachMaximum(const PoolAxis& steps, const ValueView& in, int64_t begin, int64_t end,
                    const Fn& fn) {
  const T* x = in.as<T>();
  const int64_t channels = in.dims[2];
  int64_t out = begin * steps.out * channels;
  for (int64_t example = begin; example < end; ++example) {
    for (int64_t o = 0; o < steps.out; ++o) {
      const int64_t first = (example * steps.in + steps.begin(o)) * channels;
      const int64_t last = (example * steps.in + steps.end(o)) * channels;
      for (int64_t i = 0; i < channels; ++i, ++out) {
        int64_t best = first + i;
        for (int64_t at = best + channels; at < last; at += channels) {
          const bool first_nan = x[at] != x[at] && x[best] == x[best];
          if (x[at] > x[best] || first_nan) best = at;
        }
        fn(out, best);
      }
    }
  }
}

template <typename T>
class PickAtMaximumKernel : public Kernel {
 public:
  explicit PickAtMaximumKernel(const PoolAxis& steps) : steps_(steps) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(0);
    if (in.elements == 0) return absl::OkStatus();
    const T* values = c.in(1).as<T>();
    T* y = c.out().as<T>();
    const int64_t examples = in.dims[0];
    c.pool->ParallelFor(examples, RowGrain(in.elements / examples),
                        [&](int64_t begin, int64_t end) {
                          ForEachMaximum<T>(steps_, in, begin, end,
                                            [&](int64_t out, int64_t at) { y[out] = values[at]; });
                        });
    return absl::OkStatus();
  }

 private:
  const PoolAxis steps_;
};

template <typename T>
class MaxPoolGradKernel : public Kernel {
 public:
  explicit MaxPoolGradKernel(const PoolAxis& steps) : steps_(steps) {}

  absl::Status Run(const KernelContext& c) const override {
    const ValueView& in = c.in(1);
    if (in.elements == 0) return absl::OkStatus();
    const T* grad = c.in(0).as<T>();
    T* y = c.out().as<T>();
    const int64_t examples = in.dims[0];
    const int64_t each = in.elements / examples;
    c.pool->ParallelFor(examples, RowGrain(each), [&](int64_t begin, int64_t end) {
      std::fill(y + begin * each, y + end * each, T{0});
      ForEachMaximum<T>(steps_, in, begin, end,
                        [&](int64_t out, int64_t at) { y[at] += grad[out]; });
    });
    return absl::OkStatus();
  }

 private:
  const PoolAxis steps_;
};

}  // namespace

KernelOr CreatePoolingCpu(const Node& node, const Program& program) {
  const bool is_grad = node.op == "max_pool_grad";
  const ValueType& x = program.type(node.inputs[is_grad ? 1 : 0]);
  COHORT_ASSIGN_OR_RETURN(const PoolAxis steps, ops::MakePoolAxis(node, 0, x.dims[1].size));
  return ForFloating(node, x.dtype, [&](auto t) -> KernelOr {
    using T = decltype(t);
    if (is_grad) return std::make_unique<MaxPoolGradKernel<T>>(steps);
    if (node.inputs.size() == 2) return std::make_unique<PickAtMaximumKernel<T>>(steps);
    return std::make_unique<MaxPoolKernel<T>>(steps);
  });
}

}  // namespace cohort
