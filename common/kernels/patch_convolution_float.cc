#include "common/kernels/patch_convolution_float.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/patch_convolution_float.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Sums of a tile stay in registers, of which AVX-512 has 32 and older instruction sets 16.
constexpr int64_t kTilePixels = HWY_TARGET <= HWY_AVX3 ? 8 : 4;  // x 2 vectors
constexpr int64_t kTileWindows = kTilePixels / 4;
constexpr int64_t kTileElements = HWY_TARGET <= HWY_AVX3 ? 9 : 4;  // x 2 vectors

HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

// Calls fn.template operator()<vectors>(first channel) for parts of one or two vectors.
template <typename Fn>
HWY_INLINE void ForEachChannels(int64_t channels, const Fn& fn) {
  int64_t c = 0;
  for (; c + 2 * Lanes() <= channels; c += 2 * Lanes()) fn.template operator()<2>(c);
  if (c < channels) fn.template operator()<1>(c);
}

// Calls fn.template operator()<n>(first) for parts of [0, count): of kMost, then of 4, 2 and 1.
template <int64_t kMost, typename Fn>
HWY_INLINE void ForEachPart(int64_t count, const Fn& fn) {
  int64_t i = 0;
  for (; i + kMost <= count; i += kMost) fn.template operator()<kMost>(i);
  if constexpr (kMost > 4) {
    for (; i + 4 <= count; i += 4) fn.template operator()<4>(i);
  }
  if constexpr (kMost > 2) {
    for (; i + 2 <= count; i += 2) fn.template operator()<2>(i);
  }
  if (i < count) fn.template operator()<1>(i);
}

template <int64_t kPixels, int64_t kVectors>
HWY_INLINE void ForwardTile(const PatchGrid& g, const float* image, const float* kernel, float* y) {
  V sums[kPixels][kVectors];
#pragma GCC unroll 16
  for (int64_t p = 0; p < kPixels; ++p) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) sums[p][v] = hn::Zero(D());
  }
  for (int64_t e = 0; e < g.patch; ++e, kernel += g.channels) {
    V weights[kVectors];
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) weights[v] = hn::LoadU(D(), kernel + v * Lanes());
    const float* at = image + g.offsets[e];
#pragma GCC unroll 16
    for (int64_t p = 0; p < kPixels; ++p) {
      const V x = hn::Set(D(), at[p * g.column_step]);
#pragma GCC unroll 16
      for (int64_t v = 0; v < kVectors; ++v) sums[p][v] = hn::MulAdd(x, weights[v], sums[p][v]);
    }
  }
#pragma GCC unroll 16
  for (int64_t p = 0; p < kPixels; ++p) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[p][v], D(), y + p * g.channels + v * Lanes());
  }
}

void Forward(const PatchGrid& g, const float* image, int64_t first_row, int64_t rows,
             const float* kernel, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = image + (first_row + r) * g.row_step;
    float* to = y + r * g.columns * g.channels;
    ForEachChannels(g.channels, [&]<int64_t kVectors>(int64_t channel) HWY_ATTR {
      ForEachPart<kTilePixels>(g.columns, [&]<int64_t kPixels>(int64_t column) HWY_ATTR {
        ForwardTile<kPixels, kVectors>(g, row + column * g.column_step, kernel + channel,
                                       to + column * g.channels + channel);
      });
    });
  }
}

template <int64_t kElements, int64_t kVectors>
HWY_INLINE void KernelGradTile(const PatchGrid& g, const float* image, const int64_t* offsets,
                               int64_t rows, const float* grad, float* kernel) {
  V sums[kElements][kVectors];
#pragma GCC unroll 16
  for (int64_t e = 0; e < kElements; ++e) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v)
      sums[e][v] = hn::LoadU(D(), kernel + e * g.channels + v * Lanes());
  }
  for (int64_t r = 0; r < rows; ++r, image += g.row_step) {
    const float* at = image;
    for (int64_t c = 0; c < g.columns; ++c, at += g.column_step, grad += g.channels) {
      V gradient[kVectors];
#pragma GCC unroll 16
      for (int64_t v = 0; v < kVectors; ++v) gradient[v] = hn::LoadU(D(), grad + v * Lanes());
#pragma GCC unroll 16
      for (int64_t e = 0; e < kElements; ++e) {
        const V x = hn::Set(D(), at[offsets[e]]);
#pragma GCC unroll 16
        for (int64_t v = 0; v < kVectors; ++v) {
          sums[e][v] = hn::MulAdd(x, gradient[v], sums[e][v]);
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t e = 0; e < kElements; ++e) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v)
      hn::StoreU(sums[e][v], D(), kernel + e * g.channels + v * Lanes());
  }
}

void KernelGrad(const PatchGrid& g, const float* image, int64_t first_row, int64_t rows,
                const float* grad, float* kernel) {
  image += first_row * g.row_step;
  ForEachChannels(g.channels, [&]<int64_t kVectors>(int64_t channel) HWY_ATTR {
    ForEachPart<kTileElements>(g.patch, [&]<int64_t kElements>(int64_t element) HWY_ATTR {
      KernelGradTile<kElements, kVectors>(g, image, g.offsets + element, rows, grad + channel,
                                          kernel + element * g.channels + channel);
    });
  });
}

// Places of as many channels as a vector of floats has.
using DPlaces = hn::Rebind<uint8_t, D>;
using DNumbers = hn::RebindToSigned<D>;
using Numbers = hn::Vec<DNumbers>;

// Calls fn(first channel) for each vector of channels.
template <typename Fn>
HWY_INLINE void ForEachVector(int64_t channels, const Fn& fn) {
  for (int64_t c = 0; c < channels; c += Lanes()) fn(c);
}

// relu, and the place of its gradient.
HWY_INLINE void StorePooled(V best, Numbers place, float* y, uint8_t* places) {
  const V zero = hn::Zero(D());
  hn::StoreU(hn::IfThenZeroElse(hn::Lt(best, zero), best), D(), y);
  if (places == nullptr) return;
  const auto passes = hn::RebindMask(DNumbers(), hn::Gt(best, zero));
  place = hn::IfThenElse(passes, place, hn::Set(DNumbers(), kNoPlace));
  hn::StoreU(hn::DemoteTo(DPlaces(), place), DPlaces(), places);
}

// One vector of channels of a window that begins at x. As relu is monotonic, it may follow the
// maximum: places differ only where the maximum is not positive.
void PoolVector(const PoolGrid& g, const float* x, V bias, float* y, uint8_t* places) {
  const DNumbers dn;
  V best = hn::Add(hn::LoadU(D(), x), bias);
  Numbers place = hn::Zero(dn);
  for (int64_t number = 1; number < g.rows * g.columns; ++number) {
    const int64_t pixel = number / g.columns * g.row_pixels + number % g.columns;
    const V value = hn::Add(hn::LoadU(D(), x + pixel * g.channels), bias);
    // Greater than the best, or the first NaN.
    const auto wins = hn::And(hn::Not(hn::Le(value, best)), hn::Eq(best, best));
    place =
        hn::IfThenElse(hn::RebindMask(dn, wins), hn::Set(dn, static_cast<int32_t>(number)), place);
    best = hn::IfThenElse(wins, value, best);
  }
  StorePooled(best, place, y, places);
}

void BiasReluMaxPool(const PoolGrid& g, const float* x, const float* bias, float* y,
                     uint8_t* places) {
  for (int64_t w = 0; w < g.windows; ++w, x += g.column_step * g.channels) {
    ForEachVector(g.channels, [&](int64_t c) HWY_ATTR {
      const int64_t at = w * g.channels + c;
      PoolVector(g, x + c, hn::LoadU(D(), bias + c), y + at,
                 places == nullptr ? nullptr : places + at);
    });
  }
}

// The same for the four pixels of a window.
HWY_INLINE void PoolFour(V v0, V v1, V v2, V v3, float* y, uint8_t* places) {
  const D d;
  const DNumbers dn;
  V best = hn::Max(hn::Max(v0, v1), hn::Max(v2, v3));
  // Max may lose a NaN, which is not equal to itself: the first one is the maximum.
  const auto numbers =
      hn::And(hn::And(hn::Eq(v0, v0), hn::Eq(v1, v1)), hn::And(hn::Eq(v2, v2), hn::Eq(v3, v3)));
  if (!hn::AllTrue(d, numbers)) {
    best = hn::IfThenElse(hn::Eq(v3, v3), best, v3);
    best = hn::IfThenElse(hn::Eq(v2, v2), best, v2);
    best = hn::IfThenElse(hn::Eq(v1, v1), best, v1);
    best = hn::IfThenElse(hn::Eq(v0, v0), best, v0);
  }
  Numbers place = hn::Set(dn, 3);
  place = hn::IfThenElse(hn::RebindMask(dn, hn::Eq(v2, best)), hn::Set(dn, 2), place);
  place = hn::IfThenElse(hn::RebindMask(dn, hn::Eq(v1, best)), hn::Set(dn, 1), place);
  place = hn::IfThenElse(hn::RebindMask(dn, hn::Eq(v0, best)), hn::Zero(dn), place);
  StorePooled(best, place, y, places);
}

// Windows of two rows and columns, whose sums stay in registers.
template <int64_t kWindows, int64_t kVectors>
HWY_INLINE void PooledTile(const PatchGrid& g, const float* image, const float* kernel,
                           const float* bias, float* y, uint8_t* places) {
  constexpr int64_t kColumns = 2 * kWindows;
  V sums[2][kColumns][kVectors];
#pragma GCC unroll 16
  for (int64_t p = 0; p < kColumns; ++p) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) sums[0][p][v] = sums[1][p][v] = hn::Zero(D());
  }
  for (int64_t e = 0; e < g.patch; ++e, kernel += g.channels) {
    V weights[kVectors];
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) weights[v] = hn::LoadU(D(), kernel + v * Lanes());
    const float* above = image + g.offsets[e];
    const float* below = above + g.row_step;
#pragma GCC unroll 16
    for (int64_t p = 0; p < kColumns; ++p) {
      const V x0 = hn::Set(D(), above[p * g.column_step]);
      const V x1 = hn::Set(D(), below[p * g.column_step]);
#pragma GCC unroll 16
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[0][p][v] = hn::MulAdd(x0, weights[v], sums[0][p][v]);
        sums[1][p][v] = hn::MulAdd(x1, weights[v], sums[1][p][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int64_t w = 0; w < kWindows; ++w) {
#pragma GCC unroll 16
    for (int64_t v = 0; v < kVectors; ++v) {
      const V b = hn::LoadU(D(), bias + v * Lanes());
      const int64_t at = w * g.channels + v * Lanes();
      PoolFour(hn::Add(sums[0][2 * w][v], b), hn::Add(sums[0][2 * w + 1][v], b),
               hn::Add(sums[1][2 * w][v], b), hn::Add(sums[1][2 * w + 1][v], b), y + at,
               places == nullptr ? nullptr : places + at);
    }
  }
}

void PooledForward(const PatchGrid& g, const float* image, int64_t first_row, int64_t windows,
                   const float* kernel, const float* bias, float* y, uint8_t* places) {
  image += first_row * g.row_step;
  ForEachChannels(g.channels, [&]<int64_t kVectors>(int64_t channel) HWY_ATTR {
    ForEachPart<kTileWindows>(windows, [&]<int64_t kWindows>(int64_t w) HWY_ATTR {
      const int64_t at = w * g.channels + channel;
      PooledTile<kWindows, kVectors>(g, image + 2 * w * g.column_step, kernel + channel,
                                     bias + channel, y + at,
                                     places == nullptr ? nullptr : places + at);
    });
  });
}

// Where `grad` of these channels belongs to pixel `number` of its window, else 0.
HWY_INLINE V AtPlace(V grad, Numbers places, int32_t number) {
  const auto here = hn::Eq(places, hn::Set(DNumbers(), number));
  return hn::IfThenElseZero(hn::RebindMask(D(), here), grad);
}

HWY_INLINE Numbers LoadPlaces(const uint8_t* places) {
  return hn::PromoteTo(DNumbers(), hn::LoadU(DPlaces(), places));
}

void ScatterToPlaces(const PoolGrid& g, const float* grad, const uint8_t* places, float* dx) {
  const D d;
  for (int64_t w = 0; w < g.windows; ++w, dx += g.column_step * g.channels) {
    ForEachVector(g.channels, [&](int64_t c) HWY_ATTR {
      const V gradient = hn::LoadU(d, grad + w * g.channels + c);
      const Numbers place = LoadPlaces(places + w * g.channels + c);
      int32_t number = 0;
      for (int64_t r = 0; r < g.rows; ++r) {
        float* to = dx + r * g.row_pixels * g.channels + c;
        for (int64_t p = 0; p < g.columns; ++p, ++number, to += g.channels) {
          hn::StoreU(AtPlace(gradient, place, number), d, to);
        }
      }
    });
  }
}

void AddPlaced(const PoolGrid& g, const float* grad, const uint8_t* places, float* sums) {
  const D d;
  ForEachVector(g.channels, [&](int64_t c) HWY_ATTR {
    V sum = hn::LoadU(d, sums + c);
    for (int64_t r = 0; r < g.rows; ++r) {
      for (int64_t w = 0; w < g.windows; ++w) {
        const V gradient = hn::LoadU(d, grad + w * g.channels + c);
        const Numbers place = LoadPlaces(places + w * g.channels + c);
        for (int64_t p = 0; p < g.columns; ++p) {
          const auto number = static_cast<int32_t>(r * g.columns + p);
          const auto here = hn::Eq(place, hn::Set(DNumbers(), number));
          sum = hn::IfThenElse(hn::RebindMask(D(), here), hn::Add(sum, gradient), sum);
        }
      }
    }
    hn::StoreU(sum, d, sums + c);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
HWY_EXPORT(Forward);
HWY_EXPORT(KernelGrad);
HWY_EXPORT(BiasReluMaxPool);
HWY_EXPORT(PooledForward);
HWY_EXPORT(ScatterToPlaces);
HWY_EXPORT(AddPlaced);

void PatchForwardFloat(const PatchGrid& grid, const float* image, int64_t first_row, int64_t rows,
                       const float* kernel, float* y) {
  HWY_DYNAMIC_DISPATCH(Forward)(grid, image, first_row, rows, kernel, y);
}

void PatchKernelGradFloat(const PatchGrid& grid, const float* image, int64_t first_row,
                          int64_t rows, const float* grad, float* kernel) {
  HWY_DYNAMIC_DISPATCH(KernelGrad)(grid, image, first_row, rows, grad, kernel);
}

void BiasReluMaxPoolFloat(const PoolGrid& grid, const float* x, const float* bias, float* y,
                          uint8_t* places) {
  HWY_DYNAMIC_DISPATCH(BiasReluMaxPool)(grid, x, bias, y, places);
}

void PatchForwardPooledFloat(const PatchGrid& grid, const float* image, int64_t first_row,
                             int64_t windows, const float* kernel, const float* bias, float* y,
                             uint8_t* places) {
  HWY_DYNAMIC_DISPATCH(PooledForward)
  (grid, image, first_row, windows, kernel, bias, y, places);
}

void ScatterToPlacesFloat(const PoolGrid& grid, const float* grad, const uint8_t* places,
                          float* dx) {
  HWY_DYNAMIC_DISPATCH(ScatterToPlaces)(grid, grad, places, dx);
}

void AddPlacedFloat(const PoolGrid& grid, const float* grad, const uint8_t* places, float* sums) {
  HWY_DYNAMIC_DISPATCH(AddPlaced)(grid, grad, places, sums);
}

}  // namespace cohort
#endif  // HWY_ONCE
