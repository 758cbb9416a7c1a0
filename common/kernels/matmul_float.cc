#include "common/kernels/matmul_float.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/matmul_float.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

#include "common/kernels/product_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Tiles are of the transposed product: their rows are rows of b, their columns rows of a, which are
// packed side by side. So b is read once, and as it lies in memory.
constexpr int64_t kColumns = kPackedColumns;  // rows of a
constexpr int64_t kDepth = 256;               // products that are added at a time
constexpr int64_t kGroupRows = 48;            // rows of b whose results are transposed together

using D = hn::ScalableTag<float>;

// MultiplyTile for any number of rows and columns. Whole vectors of columns are computed.
template <int64_t kVectors>
HWY_INLINE void MultiplyVectors(int64_t count, const float* rows, int64_t row_step,
                                const float* packed, int64_t depth, bool add, float* sums) {
  int64_t r = 0;
  for (; r + kTileRows <= count; r += kTileRows) {
    MultiplyTile<kTileRows, kVectors>(rows + r * row_step, row_step, packed, depth, add,
                                      sums + r * kColumns);
  }
  for (; r < count; ++r) {
    MultiplyTile<1, kVectors>(rows + r * row_step, row_step, packed, depth, add,
                              sums + r * kColumns);
  }
}

void MultiplyGroup(int64_t count, int64_t columns, const float* rows, int64_t row_step,
                   const float* packed, int64_t depth, bool add, float* sums) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t c = 0;
  for (; c + (kTileVectors - 1) * lanes < columns; c += kTileVectors * lanes) {
    MultiplyVectors<kTileVectors>(count, rows, row_step, packed + c, depth, add, sums + c);
  }
  for (; c < columns; c += lanes) {
    MultiplyVectors<1>(count, rows, row_step, packed + c, depth, add, sums + c);
  }
}

// to[columns, rows] = from[rows, columns].
void TransposeTo(const float* from, int64_t from_step, int64_t rows, int64_t columns, float* to,
                 int64_t to_step) {
  int64_t r = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4) {
      const float* block = from + r * from_step + c;
      const auto r0 = hn::LoadU(d, block), r1 = hn::LoadU(d, block + from_step);
      const auto r2 = hn::LoadU(d, block + 2 * from_step);
      const auto r3 = hn::LoadU(d, block + 3 * from_step);
      const auto low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
      const auto high01 = hn::InterleaveUpper(d, r0, r1), high23 = hn::InterleaveUpper(d, r2, r3);
      float* const at = to + c * to_step + r;
      const hn::Repartition<double, decltype(d)> pairs;
      const auto pair = [&](auto v) HWY_ATTR { return hn::BitCast(pairs, v); };
      const auto store = [&](auto v, int64_t column)
                             HWY_ATTR { hn::StoreU(hn::BitCast(d, v), d, at + column * to_step); };
      store(hn::InterleaveLower(pairs, pair(low01), pair(low23)), 0);
      store(hn::InterleaveUpper(pairs, pair(low01), pair(low23)), 1);
      store(hn::InterleaveLower(pairs, pair(high01), pair(high23)), 2);
      store(hn::InterleaveUpper(pairs, pair(high01), pair(high23)), 3);
    }
    for (; c < columns; ++c) {
      for (int64_t i = r; i < r + 4; ++i) to[c * to_step + i] = from[i * from_step + c];
    }
  }
#endif
  for (; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * to_step + r] = from[r * from_step + c];
  }
}

void MultiplyByRows(int64_t n, int64_t k, const float* a, const float* b, float* c, int64_t begin,
                    int64_t end) {
  alignas(64) float packed[kDepth * kColumns];
  alignas(64) float sums[kGroupRows * kColumns];
  std::fill_n(packed, kDepth * kColumns, 0.0f);  // vectors of columns that are not full
  for (int64_t i = begin; i < end; i += kColumns) {
    const int64_t columns = std::min(kColumns, end - i);
    for (int64_t p = 0; p < k; p += kDepth) {
      const int64_t depth = std::min(kDepth, k - p);
      TransposeTo(a + i * k + p, k, columns, depth, packed, kColumns);
      for (int64_t j = 0; j < n; j += kGroupRows) {
        const int64_t count = std::min(kGroupRows, n - j);
        float* const to = c + i * n + j;
        if (p > 0) TransposeTo(to, n, columns, count, sums, kColumns);
        MultiplyGroup(count, columns, b + j * k + p, k, packed, depth, p > 0, sums);
        TransposeTo(sums, kColumns, count, columns, to, n);
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
HWY_EXPORT(MultiplyByRows);

constexpr int64_t kLargeOperand = 1 << 18;  // elements: 1 MiB does not stay in the cache

bool SuitsMultiplyByRows(int64_t m, int64_t n, int64_t k) {
  return m >= 16 && m <= 128 && n * k >= kLargeOperand;
}

void MultiplyByRowsFloat(int64_t n, int64_t k, const float* a, const float* b, float* c,
                         int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(MultiplyByRows)(n, k, a, b, c, begin, end);
}

}  // namespace cohort
#endif  // HWY_ONCE
