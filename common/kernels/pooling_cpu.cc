// Pooling of x[batch, rows..., channels] over windows of one or two axes.
// max_pool: the maximum of each window.
// max_pool: (x, values) -> the element of `values` at the place of the first maximum of each window
// of x. Its place is that of the gradient, as in TensorFlow on a CPU.
// max_pool_grad: (grad, x) -> like x: the sums of `grad` at these places, in order of the windows.
// avg_pool: the mean of the elements of each window; padding does not count.
// avg_pool_grad: (grad, x for its dims) -> like x.
//
// Padding is never a maximum, because every window covers an element. A NaN is a maximum.
#include <algorithm>
#include <array>
#include <type_traits>

#include "common/base/thread_pool.h"
#include "common/graph/ops/pooling.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/pooling_float.h"

namespace cohort {
namespace {

using ops::PoolAxis;

// The windows of one example, and its sizes. With one pooled axis there is one row.
struct PoolShape {
  PoolAxis rows, columns;
  int64_t channels = 0;

  int64_t windows() const { return rows.out * columns.out; }
  int64_t in_elements() const { return rows.in * columns.in * channels; }
  // Multiply by this to count the work of one window.
  int64_t window_elements() const {
    return std::min(rows.window, rows.in) * std::min(columns.window, columns.in) * channels;
  }
  // Calls fn(offset in the example) for each pixel of window `w`, in order.
  template <typename Fn>
  void ForEachPixel(int64_t w, const Fn& fn) const {
    const int64_t row = w / columns.out, column = w % columns.out;
    for (int64_t y = rows.begin(row); y < rows.end(row); ++y) {
      for (int64_t x = columns.begin(column); x < columns.end(column); ++x) {
        fn((y * columns.in + x) * channels);
      }
    }
  }
  int64_t pixels(int64_t w) const {
    const int64_t row = w / columns.out, column = w % columns.out;
    return (rows.end(row) - rows.begin(row)) * (columns.end(column) - columns.begin(column));
  }
};

template <typename T>
class MaxPoolKernel : public Kernel {
 public:
  explicit MaxPoolKernel(const PoolShape& shape) : s_(shape) {}

  absl::Status Run(const KernelContext& c) const override {
    if (c.in(0).elements == 0) return absl::OkStatus();
    const int64_t count = c.in(0).dims[0] * s_.windows();
    c.pool->ParallelFor(count, RowGrain(s_.window_elements()), [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) {
        const T* x = c.in(0).template as<T>() + w / s_.windows() * s_.in_elements();
        T* __restrict y = c.out().template as<T>() + w * s_.channels;
        bool first = true;
        s_.ForEachPixel(w % s_.windows(), [&](int64_t pixel) {
          const T* __restrict from = x + pixel;
          if (first) {
            std::copy_n(from, s_.channels, y);
            first = false;
            return;
          }
          for (int64_t i = 0; i < s_.channels; ++i) {
            y[i] = y[i] > from[i] || y[i] != y[i] ? y[i] : from[i];
          }
        });
      }
    });
    return absl::OkStatus();
  }

 private:
  const PoolShape s_;
};

// The places of the first maxima of a window, for kBlock channels at a time: loops over channels
// without branches become vector code.
template <typename T>
struct FirstMaxima {
  static constexpr int64_t kBlock = 64;
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;  // as wide as T
  T best[kBlock];
  Place place[kBlock];  // number of the pixel in the window

  void Find(const PoolShape& s, const T* x, int64_t window, int64_t n) {
    Place number = 0;
    s.ForEachPixel(window, [&](int64_t pixel) {
      const T* from = x + pixel;
      if (number == 0) {
        for (int64_t i = 0; i < n; ++i) best[i] = from[i];
        for (int64_t i = 0; i < n; ++i) place[i] = 0;
      } else {
        for (int64_t i = 0; i < n; ++i) {
          // Greater than the best, or the first NaN.
          const bool wins = !(from[i] <= best[i]) && best[i] == best[i];
          place[i] = wins ? number : place[i];
          best[i] = wins ? from[i] : best[i];
        }
      }
      ++number;
    });
  }
};

// Calls fn(example, window of it, first channel, channels, maxima) for blocks of channels of the
// examples [begin, end), in order of the windows.
template <typename T, typename Fn>
void ForEachMaxima(const PoolShape& s, const T* x, int64_t begin, int64_t end, const Fn& fn) {
  FirstMaxima<T> maxima;
  for (int64_t example = begin; example < end; ++example) {
    for (int64_t w = 0; w < s.windows(); ++w) {
      for (int64_t channel = 0; channel < s.channels; channel += maxima.kBlock) {
        const int64_t n = std::min(maxima.kBlock, s.channels - channel);
        maxima.Find(s, x + example * s.in_elements() + channel, w, n);
        fn(example, w, channel, n, maxima);
      }
    }
  }
}

template <typename T>
class PickAtMaximumKernel : public Kernel {
 public:
  explicit PickAtMaximumKernel(const PoolShape& shape) : s_(shape) {}

  absl::Status Run(const KernelContext& c) const override {
    if (c.in(0).elements == 0) return absl::OkStatus();
    const T* values = c.in(1).as<T>();
    T* y = c.out().as<T>();
    const auto pick = [&](int64_t example, int64_t w, int64_t channel, int64_t n, const auto& at) {
      typename FirstMaxima<T>::Place number = 0;
      T* __restrict to = y + (example * s_.windows() + w) * s_.channels + channel;
      s_.ForEachPixel(w, [&](int64_t pixel) {
        const T* __restrict from = values + example * s_.in_elements() + pixel + channel;
        for (int64_t i = 0; i < n; ++i) to[i] = at.place[i] == number ? from[i] : to[i];
        ++number;
      });
    };
    c.pool->ParallelFor(c.in(0).dims[0], RowGrain(s_.in_elements()),
                        [&](int64_t begin, int64_t end) {
                          ForEachMaxima<T>(s_, c.in(0).as<T>(), begin, end, pick);
                        });
    return absl::OkStatus();
  }

 private:
  const PoolShape s_;
};

// max_pool_grad in float32, for windows of up to kMaxPixels pixels.
class MaxPoolGradFloatKernel : public Kernel {
 public:
  static constexpr int64_t kMaxPixels = 256;

  explicit MaxPoolGradFloatKernel(const PoolShape& shape)
      : s_(shape),
        overlaps_(shape.rows.stride < shape.rows.window ||
                  shape.columns.stride < shape.columns.window) {}

  absl::Status Run(const KernelContext& c) const override {
    if (c.in(1).elements == 0) return absl::OkStatus();
    const int64_t each = s_.in_elements();
    c.pool->ParallelFor(c.in(1).dims[0], RowGrain(each), [&](int64_t begin, int64_t end) {
      std::array<int64_t, kMaxPixels> pixels;
      for (int64_t example = begin; example < end; ++example) {
        const float* x = c.in(1).as<float>() + example * each;
        const float* g = c.in(0).as<float>() + example * s_.windows() * s_.channels;
        float* dx = c.out().as<float>() + example * each;
        std::fill_n(dx, each, 0.0f);
        for (int64_t w = 0; w < s_.windows(); ++w, g += s_.channels) {
          int64_t count = 0;
          s_.ForEachPixel(w, [&](int64_t at) { pixels[static_cast<size_t>(count++)] = at; });
          MaxPoolGradWindow(x, pixels.data(), count, g, dx, s_.channels, overlaps_);
        }
      }
    });
    return absl::OkStatus();
  }

 private:
  const PoolShape s_;
  const bool overlaps_;  // windows share pixels
};

template <typename T>
class MaxPoolGradKernel : public Kernel {
 public:
  explicit MaxPoolGradKernel(const PoolShape& shape) : s_(shape) {}

  absl::Status Run(const KernelContext& c) const override {
    if (c.in(1).elements == 0) return absl::OkStatus();
    const T* grad = c.in(0).as<T>();
    T* dx = c.out().as<T>();
    const auto add = [&](int64_t example, int64_t w, int64_t channel, int64_t n, const auto& at) {
      typename FirstMaxima<T>::Place number = 0;
      const T* __restrict g = grad + (example * s_.windows() + w) * s_.channels + channel;
      s_.ForEachPixel(w, [&](int64_t pixel) {
        T* __restrict to = dx + example * s_.in_elements() + pixel + channel;
        for (int64_t i = 0; i < n; ++i) to[i] += at.place[i] == number ? g[i] : T{0};
        ++number;
      });
    };
    const int64_t each = s_.in_elements();
    c.pool->ParallelFor(c.in(1).dims[0], RowGrain(each), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::fill_n(dx + i * each, each, T{0});
        ForEachMaxima<T>(s_, c.in(1).as<T>(), i, i + 1, add);
      }
    });
    return absl::OkStatus();
  }

 private:
  const PoolShape s_;
};

template <typename T>
class AvgPoolKernel : public Kernel {
 public:
  explicit AvgPoolKernel(const PoolShape& shape) : s_(shape) {}

  absl::Status Run(const KernelContext& c) const override {
    if (c.in(0).elements == 0) return absl::OkStatus();
    const int64_t count = c.in(0).dims[0] * s_.windows();
    c.pool->ParallelFor(count, RowGrain(s_.window_elements()), [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) {
        const T* x = c.in(0).template as<T>() + w / s_.windows() * s_.in_elements();
        T* __restrict y = c.out().template as<T>() + w * s_.channels;
        std::fill_n(y, s_.channels, T{0});
        s_.ForEachPixel(w % s_.windows(), [&](int64_t pixel) {
          for (int64_t i = 0; i < s_.channels; ++i) y[i] += x[pixel + i];
        });
        const T pixels = static_cast<T>(s_.pixels(w % s_.windows()));
        for (int64_t i = 0; i < s_.channels; ++i) y[i] /= pixels;
      }
    });
    return absl::OkStatus();
  }

 private:
  const PoolShape s_;
};

template <typename T>
class AvgPoolGradKernel : public Kernel {
 public:
  explicit AvgPoolGradKernel(const PoolShape& shape) : s_(shape) {}

  absl::Status Run(const KernelContext& c) const override {
    if (c.out().elements == 0) return absl::OkStatus();
    const int64_t each = s_.in_elements();
    c.pool->ParallelFor(c.out().dims[0], RowGrain(each), [&](int64_t begin, int64_t end) {
      for (int64_t example = begin; example < end; ++example) {
        const T* g = c.in(0).template as<T>() + example * s_.windows() * s_.channels;
        T* dx = c.out().template as<T>() + example * each;
        std::fill_n(dx, each, T{0});
        for (int64_t w = 0; w < s_.windows(); ++w, g += s_.channels) {
          const T pixels = static_cast<T>(s_.pixels(w));
          s_.ForEachPixel(w, [&](int64_t pixel) {
            T* __restrict to = dx + pixel;
            for (int64_t i = 0; i < s_.channels; ++i) to[i] += g[i] / pixels;
          });
        }
      }
    });
    return absl::OkStatus();
  }
  bool reads_data(size_t i) const override { return i == 0; }

 private:
  const PoolShape s_;
};

}  // namespace

KernelOr CreatePoolingCpu(const Node& node, const Program& program) {
  const bool is_grad = node.op == "max_pool_grad" || node.op == "avg_pool_grad";
  const ValueType& x = program.type(node.inputs[is_grad ? 1 : 0]);
  const size_t axes = x.dims.size() - 2;
  PoolShape s;
  s.channels = x.dims.back().size;
  s.rows = {.in = 1, .out = 1, .window = 1, .stride = 1, .before = 0};
  if (axes == 2) {
    COHORT_ASSIGN_OR_RETURN(s.rows, ops::MakePoolAxis(node, 0, x.dims[1].size));
  }
  COHORT_ASSIGN_OR_RETURN(s.columns, ops::MakePoolAxis(node, axes - 1, x.dims[axes].size));
  return ForFloating(node, x.dtype, [&](auto t) -> KernelOr {
    using T = decltype(t);
    if (node.op == "avg_pool") return std::make_unique<AvgPoolKernel<T>>(s);
    if (node.op == "avg_pool_grad") return std::make_unique<AvgPoolGradKernel<T>>(s);
    if (is_grad && sizeof(T) == 4 &&
        s.window_elements() <= MaxPoolGradFloatKernel::kMaxPixels * s.channels) {
      return std::make_unique<MaxPoolGradFloatKernel>(s);
    }
    if (is_grad) return std::make_unique<MaxPoolGradKernel<T>>(s);
    if (node.inputs.size() == 2) return std::make_unique<PickAtMaximumKernel<T>>(s);
    return std::make_unique<MaxPoolKernel<T>>(s);
  });
}

}  // namespace cohort
