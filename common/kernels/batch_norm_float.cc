#include "common/kernels/batch_norm_float.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/batch_norm_float.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// Double sums of one vector of channels.
template <class D>
struct WideSum {
  using Wide = hn::Repartition<double, D>;
  using Half = hn::Half<D>;
  hn::Vec<Wide> low, high;

  HWY_INLINE explicit WideSum(const double* from)
      : low(hn::LoadU(Wide(), from)), high(hn::LoadU(Wide(), from + hn::Lanes(Wide()))) {}
  HWY_INLINE void Add(hn::Vec<D> v) {
    low = hn::Add(low, hn::PromoteTo(Wide(), hn::LowerHalf(Half(), v)));
    high = hn::Add(high, hn::PromoteTo(Wide(), hn::UpperHalf(Half(), v)));
  }
  HWY_INLINE void Store(double* to) const {
    hn::StoreU(low, Wide(), to);
    hn::StoreU(high, Wide(), to + hn::Lanes(Wide()));
  }
};
#endif  // HWY_TARGET != HWY_SCALAR

// Calls with_vector(channel) for whole vectors of channels, and with_one(channel) for the rest.
template <class Vector, class One>
HWY_INLINE void ForChannels(int64_t channels, const Vector& with_vector, const One& with_one) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  int64_t channel = 0;
  // Without vectors there are no halves of them.
  for (; HWY_TARGET != HWY_SCALAR && channel + lanes <= channels; channel += lanes) {
    with_vector(channel);
  }
  for (; channel < channels; ++channel) with_one(channel);
}

// Four rows are added in float, the rest in double.
void Moments(const float* x, const float* shift, int64_t rows, int64_t channels, double* first,
             double* second) {
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const auto with_vector = [&](int64_t i) {
    const auto s = hn::LoadU(d, shift + i);
    WideSum<decltype(d)> sum(first + i), squares(second + i);
    const float* at = x + i;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, at += 4 * channels) {
      const auto a = hn::Sub(hn::LoadU(d, at), s);
      const auto b = hn::Sub(hn::LoadU(d, at + channels), s);
      const auto c = hn::Sub(hn::LoadU(d, at + 2 * channels), s);
      const auto e = hn::Sub(hn::LoadU(d, at + 3 * channels), s);
      sum.Add(hn::Add(hn::Add(a, b), hn::Add(c, e)));
      squares.Add(
          hn::Add(hn::Add(hn::Mul(a, a), hn::Mul(b, b)), hn::Add(hn::Mul(c, c), hn::Mul(e, e))));
    }
    for (; r < rows; ++r, at += channels) {
      const auto a = hn::Sub(hn::LoadU(d, at), s);
      sum.Add(a);
      squares.Add(hn::Mul(a, a));
    }
    sum.Store(first + i);
    squares.Store(second + i);
  };
#else
  const auto with_vector = [](int64_t) {};
#endif
  const auto with_one = [&](int64_t i) {
    const float* at = x + i;
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, at += 4 * channels) {
      const float a = at[0] - shift[i], b = at[channels] - shift[i];
      const float c = at[2 * channels] - shift[i], e = at[3 * channels] - shift[i];
      first[i] += static_cast<double>((a + b) + (c + e));
      second[i] += static_cast<double>((a * a + b * b) + (c * c + e * e));
    }
    for (; r < rows; ++r, at += channels) {
      const float a = at[0] - shift[i];
      first[i] += static_cast<double>(a);
      second[i] += static_cast<double>(a * a);
    }
  };
  ForChannels(channels, with_vector, with_one);
}

void GradientSums(const float* g, const float* x, const float* mean, int64_t rows, int64_t channels,
                  double* first, double* second) {
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const auto with_vector = [&](int64_t i) {
    const auto m = hn::LoadU(d, mean + i);
    WideSum<decltype(d)> sum(first + i), products(second + i);
    int64_t at = i, r = 0;
    const auto grad = [&](int64_t row) { return hn::LoadU(d, g + at + row * channels); };
    const auto product = [&](int64_t row) {
      return hn::Mul(grad(row), hn::Sub(hn::LoadU(d, x + at + row * channels), m));
    };
    for (; r + 4 <= rows; r += 4, at += 4 * channels) {
      sum.Add(hn::Add(hn::Add(grad(0), grad(1)), hn::Add(grad(2), grad(3))));
      products.Add(hn::Add(hn::Add(product(0), product(1)), hn::Add(product(2), product(3))));
    }
    for (; r < rows; ++r, at += channels) {
      sum.Add(grad(0));
      products.Add(product(0));
    }
    sum.Store(first + i);
    products.Store(second + i);
  };
#else
  const auto with_vector = [](int64_t) {};
#endif
  const auto with_one = [&](int64_t i) {
    int64_t at = i, r = 0;
    const auto grad = [&](int64_t row) { return g[at + row * channels]; };
    const auto product = [&](int64_t row) {
      return grad(row) * (x[at + row * channels] - mean[i]);
    };
    for (; r + 4 <= rows; r += 4, at += 4 * channels) {
      first[i] += static_cast<double>((grad(0) + grad(1)) + (grad(2) + grad(3)));
      second[i] += static_cast<double>((product(0) + product(1)) + (product(2) + product(3)));
    }
    for (; r < rows; ++r, at += channels) {
      first[i] += static_cast<double>(grad(0));
      second[i] += static_cast<double>(product(0));
    }
  };
  ForChannels(channels, with_vector, with_one);
}

void Scale(const float* x, const float* scale, const float* offset, int64_t rows, int64_t channels,
           float* y) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r, x += channels, y += channels) {
    ForChannels(
        channels,
        [&](int64_t i) {
          const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, scale + i));
          hn::StoreU(hn::Add(scaled, hn::LoadU(d, offset + i)), d, y + i);
        },
        [&](int64_t i) { y[i] = x[i] * scale[i] + offset[i]; });
  }
}

void Gradient(const float* g, const float* x, const float* mean, const float* scale,
              const float* slope, const float* offset, int64_t rows, int64_t channels, float* dx) {
  const hn::ScalableTag<float> d;
  for (int64_t r = 0; r < rows; ++r, g += channels, x += channels, dx += channels) {
    ForChannels(
        channels,
        [&](int64_t i) {
          const auto middle = hn::Sub(hn::LoadU(d, x + i), hn::LoadU(d, mean + i));
          const auto line =
              hn::Add(hn::Mul(hn::LoadU(d, slope + i), middle), hn::LoadU(d, offset + i));
          const auto scaled = hn::Mul(hn::LoadU(d, scale + i), hn::LoadU(d, g + i));
          hn::StoreU(hn::Add(scaled, line), d, dx + i);
        },
        [&](int64_t i) { dx[i] = scale[i] * g[i] + (slope[i] * (x[i] - mean[i]) + offset[i]); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
HWY_EXPORT(Moments);
HWY_EXPORT(GradientSums);
HWY_EXPORT(Scale);
HWY_EXPORT(Gradient);

namespace {
// Rows that are summed in registers, for some channels after the others: they stay in the cache. A
// multiple of 4, so that the sums do not depend on it.
constexpr int64_t kRows = 32;
}  // namespace

void AddMomentsFloat(const float* x, const float* shift, int64_t rows, int64_t channels,
                     double* first, double* second) {
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t part = std::min(rows - r, kRows);
    HWY_DYNAMIC_DISPATCH(Moments)(x + r * channels, shift, part, channels, first, second);
  }
}

void AddGradientsFloat(const float* g, const float* x, const float* mean, int64_t rows,
                       int64_t channels, double* first, double* second) {
  for (int64_t r = 0; r < rows; r += kRows) {
    const int64_t part = std::min(rows - r, kRows), at = r * channels;
    HWY_DYNAMIC_DISPATCH(GradientSums)(g + at, x + at, mean, part, channels, first, second);
  }
}

void ScaleRowsFloat(const float* x, const float* scale, const float* offset, int64_t rows,
                    int64_t channels, float* y) {
  HWY_DYNAMIC_DISPATCH(Scale)(x, scale, offset, rows, channels, y);
}

void GradientRowsFloat(const float* g, const float* x, const float* mean, const float* scale,
                       const float* slope, const float* offset, int64_t rows, int64_t channels,
                       float* dx) {
  HWY_DYNAMIC_DISPATCH(Gradient)(g, x, mean, scale, slope, offset, rows, channels, dx);
}

}  // namespace cohort
#endif  // HWY_ONCE
