// batch_norm_train: (x[..., c], gamma[c], beta[c]) -> y = (x - mean) / sqrt(variance + epsilon) *
// gamma + beta, mean[c], variance[c] (biased), over all axes but the last.
// batch_norm_grad: (grad, x, gamma, mean, variance) -> dx, dgamma, dbeta.
//
// Sums are float64, of blocks of rows whose size depends on shapes only, and are folded in order.
// So results do not depend on the number of threads. Without rows, mean and variance are 0.
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

  // Three more numbers of type T per channel.
  template <typename T>
  T* extra(const KernelContext& c) const {
    return reinterpret_cast<T*>(reinterpret_cast<double*>(c.scratch) + max_blocks_ * 2 * channels_);
  }

  int64_t channels() const { return channels_; }

 private:
  const int64_t channels_, block_rows_, max_blocks_;
};

// first[c] += x - shift and second[c] += (x - shift)^2. Differences from a value of the channel
// itself keep the variance exact if the mean is large. Four rows are added in T, the rest in
// double.
template <typename T>
void AddMoments(const T* __restrict x, const T* __restrict shift, int64_t rows, int64_t channels,
                double* __restrict first, double* __restrict second) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * channels) {
    for (int64_t i = 0; i < channels; ++i) {
      const T a = x[i] - shift[i], b = x[i + channels] - shift[i];
      const T c = x[i + 2 * channels] - shift[i], d = x[i + 3 * channels] - shift[i];
      first[i] += static_cast<double>((a + b) + (c + d));
      second[i] += static_cast<double>((a * a + b * b) + (c * c + d * d));
    }
  }
  for (; r < rows; ++r, x += channels) {
    for (int64_t i = 0; i < channels; ++i) {
      const T a = x[i] - shift[i];
      first[i] += static_cast<double>(a);
      second[i] += static_cast<double>(a * a);
    }
  }
}

// first[c] += g and second[c] += g (x - mean), in the same way.
template <typename T>
void AddGradients(const T* __restrict g, const T* __restrict x, const T* __restrict mean,
                  int64_t rows, int64_t channels, double* __restrict first,
                  double* __restrict second) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * channels, g += 4 * channels) {
    for (int64_t i = 0; i < channels; ++i) {
      const int64_t b = i + channels, c = b + channels, d = c + channels;
      first[i] += static_cast<double>((g[i] + g[b]) + (g[c] + g[d]));
      second[i] += static_cast<double>((g[i] * (x[i] - mean[i]) + g[b] * (x[b] - mean[i])) +
                                       (g[c] * (x[c] - mean[i]) + g[d] * (x[d] - mean[i])));
    }
  }
  for (; r < rows; ++r, x += channels, g += channels) {
    for (int64_t i = 0; i < channels; ++i) {
      first[i] += static_cast<double>(g[i]);
      second[i] += static_cast<double>(g[i] * (x[i] - mean[i]));
    }
  }
}

// The loops that write. Pointers that do not overlap become vector code.
template <typename T>
void ScaleRows(const T* __restrict x, const T* __restrict scale, const T* __restrict offset,
               int64_t rows, int64_t channels, T* __restrict y) {
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    for (int64_t i = 0; i < channels; ++i) y[i] = x[i] * scale[i] + offset[i];
  }
}

// dx = scale g + (slope (x - mean) + offset). dx may be g.
template <typename T>
void GradientRows(const T* g, const T* x, const T* mean, const T* scale, const T* slope,
                  const T* offset, int64_t rows, int64_t channels, T* dx) {
  for (int64_t r = 0; r < rows; ++r, g += channels, x += channels, dx += channels) {
    for (int64_t i = 0; i < channels; ++i) {
      dx[i] = scale[i] * g[i] + (slope[i] * (x[i] - mean[i]) + offset[i]);
    }
  }
}

// float32 has vector code.
void AddMoments(const float* x, const float* shift, int64_t rows, int64_t channels, double* first,
                double* second) {
  AddMomentsFloat(x, shift, rows, channels, first, second);
}
void AddGradients(const float* g, const float* x, const float* mean, int64_t rows, int64_t channels,
                  double* first, double* second) {
  AddGradientsFloat(g, x, mean, rows, channels, first, second);
}
void ScaleRows(const float* x, const float* scale, const float* offset, int64_t rows,
               int64_t channels, float* y) {
  ScaleRowsFloat(x, scale, offset, rows, channels, y);
}
void GradientRows(const float* g, const float* x, const float* mean, const float* scale,
                  const float* slope, const float* offset, int64_t rows, int64_t channels,
                  float* dx) {
  GradientRowsFloat(g, x, mean, scale, slope, offset, rows, channels, dx);
}

template <typename T>
class BatchNormTrainKernel : public Kernel {
 public:
  BatchNormTrainKernel(double epsilon, ChannelSums sums) : epsilon_(epsilon), sums_(sums) {}

  absl::Status Run(const KernelContext& c) const override {
    const T* x = c.in(0).as<T>();
    const int64_t channels = sums_.channels();
    const int64_t rows = c.in(0).elements / channels;
    T* mean = c.out(1).as<T>();
    T* variance = c.out(2).as<T>();
    double *first, *second;
    sums_.Sum(c, rows, &first, &second, [&](int64_t begin, int64_t end, double* a, double* b) {
      AddMoments(x + begin * channels, x, end - begin, channels, a, b);
    });
    T* scale = sums_.template extra<T>(c);
    T* offset = scale + channels;
    const double count = rows > 0 ? static_cast<double>(rows) : 1;
    for (int64_t i = 0; i < channels; ++i) {
      const double shifted = first[i] / count;
      const double moment = std::max(second[i] / count - shifted * shifted, 0.0);
      const double middle = rows > 0 ? static_cast<double>(x[i]) + shifted : 0;
      const double factor = static_cast<double>(c.in(1).as<T>()[i]) / std::sqrt(moment + epsilon_);
      mean[i] = static_cast<T>(middle);
      variance[i] = static_cast<T>(moment);
      scale[i] = static_cast<T>(factor);
      offset[i] = static_cast<T>(static_cast<double>(c.in(2).as<T>()[i]) - middle * factor);
    }
    T* y = c.out().as<T>();
    sums_.ForEachBlock(c, rows, [&](int64_t begin, int64_t end) {
      ScaleRows(x + begin * channels, scale, offset, end - begin, channels, y + begin * channels);
    });
    return absl::OkStatus();
  }
  size_t scratch_bytes() const override { return sums_.scratch_bytes(); }

 private:
  const double epsilon_;
  const ChannelSums sums_;
};

template <typename T>
class BatchNormGradKernel : public Kernel {
 public:
  BatchNormGradKernel(double epsilon, ChannelSums sums) : epsilon_(epsilon), sums_(sums) {}

  absl::Status Run(const KernelContext& c) const override {
    const T* g = c.in(0).as<T>();
    const T* x = c.in(1).as<T>();
    const T* mean = c.in(3).as<T>();
    const int64_t channels = sums_.channels();
    const int64_t rows = c.in(0).elements / channels;
    double *first, *second;
    sums_.Sum(c, rows, &first, &second, [&](int64_t begin, int64_t end, double* a, double* b) {
      AddGradients(g + begin * channels, x + begin * channels, mean, end - begin, channels, a, b);
    });
    // dx = scale g + slope (x - mean) + offset.
    T* scale = sums_.template extra<T>(c);
    T* slope = scale + channels;
    T* offset = slope + channels;
    const double count = rows > 0 ? static_cast<double>(rows) : 1;
    for (int64_t i = 0; i < channels; ++i) {
      const double inverse = 1 / std::sqrt(static_cast<double>(c.in(4).as<T>()[i]) + epsilon_);
      const double factor = static_cast<double>(c.in(2).as<T>()[i]) * inverse;
      const double sum = first[i];
      c.out(1).as<T>()[i] = static_cast<T>(second[i] * inverse);
      c.out(2).as<T>()[i] = static_cast<T>(sum);
      scale[i] = static_cast<T>(factor);
      slope[i] = static_cast<T>(-factor * inverse * inverse * second[i] / count);
      offset[i] = static_cast<T>(-factor * sum / count);
    }
    T* dx = c.out().as<T>();
    sums_.ForEachBlock(c, rows, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * channels;
      GradientRows(g + at, x + at, mean, scale, slope, offset, end - begin, channels, dx + at);
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
  const int64_t channels = x.dims.back().size;
  const ChannelSums sums(channels == 0 ? 0 : CapacityElements(x) / channels, channels);
  const double epsilon = FloatAttr(node, "epsilon");
  return ForFloating(node, x.dtype, [&](auto t) -> KernelOr {
    using T = decltype(t);
    if (node.op == "batch_norm_grad") {
      return std::make_unique<BatchNormGradKernel<T>>(epsilon, sums);
    }
    return std::make_unique<BatchNormTrainKernel<T>>(epsilon, sums);
  });
}

}  // namespace cohort
