// batch_norm_train: (x[..., c], gamma[c], beta[c]) -> y = (x - mean) / sqrt(variance + epsilon) *
// gamma + beta, mean[c], variance[c] (biased), over all axes but the last.
// batch_norm_grad: (grad, x, gamma, mean, variance) -> dx, dgamma, dbeta.
//
// float64 runs by the bodies of devices. Sums are float64, of blocks of rows whose size depends on
// shapes only, and are folded in order. So results do not depend on the number of threads. Without
// rows, mean and variance are 0.
#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/kernels/batch_norm_float.h"
#include "common/kernels/cpu_kernels.h"

namespace cohort {
namespace {

constexpr int64_t kMaxBlocks = 64;

// Splits the rows of x into blocks, and sums two numbers per channel over the rows of each.
class ChannelSums {
 public:
  ChannelSums(int64_t capacity_rows, int64_t channels)
      : channels_(channels),
        block_rows_(std::max(
            {(capacity_rows + kMaxBlocks - 1) / kMaxBlocks, RowGrain(channels), int64_t{1}})),
        max_blocks_(std::max<int64_t>((capacity_rows + block_rows_ - 1) / block_rows_, 1)) {}

  size_t scratch_bytes() const {
    return static_cast<size_t>((max_blocks_ * 2 + 3) * channels_) * sizeof(double);
  }

  // Sets the doubles first[c] and second[c] to the sums of what add(row begin, row end, first,
  // second) adds for blocks of rows. They lie in the scratch memory.
  template <typename Fn>
  void Sum(const KernelContext& c, int64_t rows, double** first, double** second,
           const Fn& add) const {
    double* sums = reinterpret_cast<double*>(c.scratch);
    const int64_t blocks = std::max<int64_t>((rows + block_rows_ - 1) / block_rows_, 1);
    c.pool->ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        double* own = sums + b * 2 * channels_;
        std::fill_n(own, 2 * channels_, 0.0);
        add(b * block_rows_, std::min(rows, (b + 1) * block_rows_), own, own + channels_);
      }
    });
    for (int64_t b = 1; b < blocks; ++b) {
      const double* part = sums + b * 2 * channels_;
      for (int64_t i = 0; i < 2 * channels_; ++i) sums[i] += part[i];
    }
    *first = sums;
    *second = sums + channels_;
  }

  // Calls fn(row begin, row end) for all rows.
  template <typename Fn>
  void ForEachBlock(const KernelContext& c, int64_t rows, const Fn& fn) const {
    c.pool->ParallelFor(rows, RowGrain(channels_), fn);
  }

  // Three more numbers per channel.
  float* extra(const KernelContext& c) const {
    return reinterpret_cast<float*>(reinterpret_cast<double*>(c.scratch) +
                                    max_blocks_ * 2 * channels_);
  }

  int64_t channels() const { return channels_; }

 private:
  const int64_t channels_, block_rows_, max_blocks_;
};

class BatchNormTrainKernel : public Kernel {
 public:
  BatchNormTrainKernel(double epsilon, ChannelSums sums) : epsilon_(epsilon), sums_(sums) {}

  absl::Status Run(const KernelContext& c) const override {
    const float* x = c.in(0).as<float>();
    const int64_t channels = sums_.channels();
    const int64_t rows = c.in(0).elements / channels;
    float* mean = c.out(1).as<float>();
    float* variance = c.out(2).as<float>();
    double *first, *second;
    sums_.Sum(c, rows, &first, &second, [&](int64_t begin, int64_t end, double* a, double* b) {
      AddMomentsFloat(x + begin * channels, x, end - begin, channels, a, b);
    });
    float* scale = sums_.extra(c);
    float* offset = scale + channels;
    const double count = rows > 0 ? static_cast<double>(rows) : 1;
    for (int64_t i = 0; i < channels; ++i) {
      const double shifted = first[i] / count;
      const double moment = std::max(second[i] / count - shifted * shifted, 0.0);
      const double middle = rows > 0 ? static_cast<double>(x[i]) + shifted : 0;
      const double factor =
          static_cast<double>(c.in(1).as<float>()[i]) / std::sqrt(moment + epsilon_);
      mean[i] = static_cast<float>(middle);
      variance[i] = static_cast<float>(moment);
      scale[i] = static_cast<float>(factor);
      offset[i] = static_cast<float>(static_cast<double>(c.in(2).as<float>()[i]) - middle * factor);
    }
    float* y = c.out().as<float>();
    sums_.ForEachBlock(c, rows, [&](int64_t begin, int64_t end) {
      ScaleRowsFloat(x + begin * channels, scale, offset, end - begin, channels,
                     y + begin * channels);
    });
    return absl::OkStatus();
  }
  size_t scratch_bytes() const override { return sums_.scratch_bytes(); }

 private:
  const double epsilon_;
  const ChannelSums sums_;
};

class BatchNormGradKernel : public Kernel {
 public:
  BatchNormGradKernel(double epsilon, ChannelSums sums) : epsilon_(epsilon), sums_(sums) {}

  absl::Status Run(const KernelContext& c) const override {
    const float* g = c.in(0).as<float>();
    const float* x = c.in(1).as<float>();
    const float* mean = c.in(3).as<float>();
    const int64_t channels = sums_.channels();
    const int64_t rows = c.in(0).elements / channels;
    double *first, *second;
    sums_.Sum(c, rows, &first, &second, [&](int64_t begin, int64_t end, double* a, double* b) {
      AddGradientsFloat(g + begin * channels, x + begin * channels, mean, end - begin, channels, a,
                        b);
    });
    // dx = scale g + slope (x - mean) + offset.
    float* scale = sums_.extra(c);
    float* slope = scale + channels;
    float* offset = slope + channels;
    const double count = rows > 0 ? static_cast<double>(rows) : 1;
    for (int64_t i = 0; i < channels; ++i) {
      const double inverse = 1 / std::sqrt(static_cast<double>(c.in(4).as<float>()[i]) + epsilon_);
      const double factor = static_cast<double>(c.in(2).as<float>()[i]) * inverse;
      const double sum = first[i];
      c.out(1).as<float>()[i] = static_cast<float>(second[i] * inverse);
      c.out(2).as<float>()[i] = static_cast<float>(sum);
      scale[i] = static_cast<float>(factor);
      slope[i] = static_cast<float>(-factor * inverse * inverse * second[i] / count);
      offset[i] = static_cast<float>(-factor * sum / count);
    }
    float* dx = c.out().as<float>();
    sums_.ForEachBlock(c, rows, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * channels;
      GradientRowsFloat(g + at, x + at, mean, scale, slope, offset, end - begin, channels, dx + at);
    });
    return absl::OkStatus();
  }
  size_t scratch_bytes() const override { return sums_.scratch_bytes(); }
  bool in_place(size_t i) const override { return i == 0; }

 private:
  const double epsilon_;
  const ChannelSums sums_;
};

}  // namespace

KernelOr CreateBatchNormCpu(const Node& node, const Program& program) {
  const ValueType& x = program.type(node.inputs[0]);
  if (x.dtype != DType::kFloat32) return CreateGridCpu(node, program);
  const int64_t channels = x.dims.back().size;
  const ChannelSums sums(channels == 0 ? 0 : CapacityElements(x) / channels, channels);
  const double epsilon = FloatAttr(node, "epsilon");
  if (node.op == "batch_norm_grad") return std::make_unique<BatchNormGradKernel>(epsilon, sums);
  return std::make_unique<BatchNormTrainKernel>(epsilon, sums);
}

}  // namespace cohort
