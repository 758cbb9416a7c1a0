#include "common/kernels/few_rows_product.h"

#include <algorithm>

#include "common/tensor/past_caches.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/few_rows_product.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;

// The columns that are worked on together: one page of a row of the matrix. Their sums stay in a
// core's caches.
constexpr int64_t kColumns = 1024;
// The rows of the matrix that are added before sums return to memory.
constexpr int64_t kDepth = 8;
// The rows of the matrix that are summed apart from all others: a long sum in one piece is less
// exact.
constexpr int64_t kBlock = 512;
// The rows of x, or of the sum of outer products, whose sums are in registers together.
constexpr int64_t kGroup = HWY_MAX_BYTES >= 64 ? 8 : 4;
// One vector of columns: sums[r] += the sum over q < depth of x[q][r] * matrix[q], for kRows rows.
// Rows of `x` have kFewRows elements, those of the matrix n, those of `sums` kColumns.
template <int64_t kRows, class D>
HWY_INLINE void AddDepth(D d, const float* x, const float* matrix, int64_t n, int64_t depth,
                         float* sums) {
  hn::Vec<D> sum[kRows];
  for (int64_t r = 0; r < kRows; ++r) sum[r] = hn::LoadU(d, sums + r * kColumns);
  for (int64_t q = 0; q < depth; ++q) {
    const auto row = hn::LoadU(d, matrix + q * n);
    for (int64_t r = 0; r < kRows; ++r)
      sum[r] = hn::MulAdd(hn::Set(d, x[q * kFewRows + r]), row, sum[r]);
  }
  for (int64_t r = 0; r < kRows; ++r) hn::StoreU(sum[r], d, sums + r * kColumns);
}

// The same for `width` columns. `next`: the rows of the matrix that are needed next, or null.
template <int64_t kRows>
void AddRows(const float* x, const float* matrix, int64_t n, int64_t depth, int64_t width,
             const float* next, float* sums) {
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= width; j += lanes) {
    if (next != nullptr) {
      for (int64_t q = 0; q < kDepth; ++q) hwy::Prefetch(next + q * n + j);
    }
    AddDepth<kRows>(d, x, matrix + j, n, depth, sums + j);
  }
  for (; j < width; ++j) AddDepth<kRows>(One(), x, matrix + j, n, depth, sums + j);
}

// Adds the products with `depth` rows of the matrix, at most kBlock, to `sums`; `x` and `matrix`
// begin there. `width` columns, at most kColumns.
void AddBlock(int64_t rows, int64_t n, int64_t k, const float* x, const float* matrix,
              int64_t depth, int64_t width, float (*sums)[kColumns]) {
  float part[kDepth * kFewRows];
  for (int64_t p = 0; p < depth; p += kDepth) {
    const int64_t now = std::min(kDepth, depth - p);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t q = 0; q < now; ++q) part[q * kFewRows + r] = x[r * k + p + q];
    }
    const float* const at = matrix + p * n;
    const float* next = p + 2 * kDepth <= depth ? at + kDepth * n : nullptr;
    for (int64_t r = 0; r < rows; next = nullptr) {
      const int64_t left = rows - r;
      if (left >= kGroup) {
        AddRows<kGroup>(part + r, at, n, now, width, next, sums[r]);
        r += kGroup;
      } else if (left >= 4) {
        AddRows<4>(part + r, at, n, now, width, next, sums[r]);
        r += 4;
      } else {
        AddRows<1>(part + r, at, n, now, width, next, sums[r]);
        r += 1;
      }
    }
  }
}

void TimesMatrix(int64_t rows, int64_t n, int64_t k, const float* x, const float* matrix, float* y,
                 int64_t begin, int64_t end) {
  float sums[kFewRows][kColumns];
  for (int64_t j = begin; j < end; j += kColumns) {
    const int64_t width = std::min(kColumns, end - j);
    for (int64_t p = 0; p < k; p += kBlock) {
      for (int64_t r = 0; r < rows; ++r) std::fill_n(sums[r], width, 0.0f);
      AddBlock(rows, n, k, x + p, matrix + p * n + j, std::min(kBlock, k - p), width, sums);
      for (int64_t r = 0; r < rows; ++r) {
        float* const to = y + r * n + j;
        for (int64_t i = 0; i < width; ++i) to[i] = p == 0 ? sums[r][i] : to[i] + sums[r][i];
      }
    }
  }
}

// One vector of columns of kRows rows of the sum. Row r of `x`, of kGroup elements, holds those of
// the product's row r for the rows of the sum. Rows of `y` have kColumns elements, those of the sum
// n.
template <int64_t kRows, class D>
HWY_INLINE void OuterVector(D d, int64_t rows, const float* x, const float* y, int64_t n,
                            bool stream, float* sum) {
  hn::Vec<D> at[kRows];
  const auto first = hn::LoadU(d, y);
  for (int64_t i = 0; i < kRows; ++i) at[i] = hn::Mul(hn::Set(d, x[i]), first);
  for (int64_t r = 1; r < rows; ++r) {
    const auto row = hn::LoadU(d, y + r * kColumns);
    for (int64_t i = 0; i < kRows; ++i)
      at[i] = hn::MulAdd(hn::Set(d, x[r * kGroup + i]), row, at[i]);
  }
  for (int64_t i = 0; i < kRows; ++i) {
    if (stream) {
      hn::Stream(at[i], d, sum + i * n);
    } else {
      hn::StoreU(at[i], d, sum + i * n);
    }
  }
}

template <int64_t kRows>
void OuterRows(int64_t rows, const float* x, const float* y, int64_t n, int64_t width, bool stream,
               float* sum) {
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= width; j += lanes) {
    OuterVector<kRows>(d, rows, x, y + j, n, stream, sum + j);
  }
  for (; j < width; ++j) OuterVector<kRows>(One(), rows, x, y + j, n, /*stream=*/false, sum + j);
}

void OuterProducts(int64_t rows, int64_t m, int64_t n, const float* x, const float* y, float* sum,
                   int64_t begin, int64_t end) {
  constexpr uintptr_t kVector = hn::MaxLanes(Wide()) * sizeof(float);
  const bool aligned = reinterpret_cast<uintptr_t>(sum) % kVector == 0 &&
                       static_cast<uintptr_t>(n) * sizeof(float) % kVector == 0;
  const bool stream = aligned && static_cast<size_t>(m * n) * sizeof(float) >= kPastCachesBytes;
  float columns[kFewRows][kColumns];
  float part[kFewRows * kGroup];
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t width = std::min(kColumns, n - j);
    for (int64_t r = 0; r < rows; ++r) std::copy_n(y + r * n + j, width, columns[r]);
    for (int64_t i = begin; i < end;) {
      const bool whole = end - i >= kGroup;
      const int64_t count = whole ? kGroup : 1;
      for (int64_t r = 0; r < rows; ++r) std::copy_n(x + r * m + i, count, part + r * kGroup);
      float* const to = sum + i * n + j;
      if (whole) {
        OuterRows<kGroup>(rows, part, columns[0], n, width, stream, to);
      } else {
        OuterRows<1>(rows, part, columns[0], n, width, stream, to);
      }
      i += count;
    }
  }
  if (stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
HWY_EXPORT(TimesMatrix);
HWY_EXPORT(OuterProducts);

void FewRowsTimesMatrix(int64_t rows, int64_t n, int64_t k, const float* x, const float* matrix,
                        float* y, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(TimesMatrix)(rows, n, k, x, matrix, y, begin, end);
}

void SumOfOuterProducts(int64_t rows, int64_t m, int64_t n, const float* x, const float* y,
                        float* sum, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(OuterProducts)(rows, m, n, x, y, sum, begin, end);
}

}  // namespace cohort
#endif  // HWY_ONCE
