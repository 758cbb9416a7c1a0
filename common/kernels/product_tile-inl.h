// A tile of a matrix product whose right operand is packed. Compiled once per instruction set, as
// float_math-inl.h.
#if defined(COHORT_COMMON_KERNELS_PRODUCT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COMMON_KERNELS_PRODUCT_TILE_INL_H_
#undef COHORT_COMMON_KERNELS_PRODUCT_TILE_INL_H_
#else
#define COHORT_COMMON_KERNELS_PRODUCT_TILE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "common/kernels/packed_columns.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Sums of a tile stay in registers, of which AVX-512 has 32 and older instruction sets 16.
constexpr int64_t kTileRows = HWY_TARGET <= HWY_AVX3 ? 6 : 4;
constexpr int64_t kTileVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// sums[kRows, columns] (+)= rows[kRows, depth] packed[depth, columns], for columns of kVectors
// vectors. A row of `packed` and `sums` has kPackedColumns columns.
template <int64_t kRows, int64_t kVectors>
HWY_INLINE void MultiplyTile(const float* rows, int64_t row_step, const float* packed,
                             int64_t depth, bool add, float* sums) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> tile[kRows][kVectors];
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      tile[r][v] = add ? hn::LoadU(d, sums + r * kPackedColumns + v * lanes) : hn::Zero(d);
    }
  }
  for (int64_t p = 0; p < depth; ++p, packed += kPackedColumns) {
    hn::Vec<decltype(d)> columns[kVectors];
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) columns[v] = hn::LoadU(d, packed + v * lanes);
#pragma GCC unroll 8
    for (int64_t r = 0; r < kRows; ++r) {
      const auto factor = hn::Set(d, rows[r * row_step + p]);
#pragma GCC unroll 8
      for (int64_t v = 0; v < kVectors; ++v) {
        tile[r][v] = hn::MulAdd(factor, columns[v], tile[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int64_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int64_t v = 0; v < kVectors; ++v) {
      hn::StoreU(tile[r][v], d, sums + r * kPackedColumns + v * lanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#endif  // COHORT_COMMON_KERNELS_PRODUCT_TILE_INL_H_
