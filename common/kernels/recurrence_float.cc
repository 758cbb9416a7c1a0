#include "common/kernels/recurrence_float.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/recurrence_float.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

#include "common/kernels/float_math-inl.h"
#include "common/kernels/product_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The columns of one panel, in whole vectors.
template <int64_t kRows>
HWY_INLINE void MultiplyPanel(const float* a, int64_t a_step, const float* packed, int64_t k,
                              int64_t columns, float* sums) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t at = 0;
  for (; at + (kTileVectors - 1) * lanes < columns; at += kTileVectors * lanes) {
    MultiplyTile<kRows, kTileVectors>(a, a_step, packed + at, k, /*add=*/false, sums + at);
  }
  for (; at < columns; at += lanes) {
    MultiplyTile<kRows, 1>(a, a_step, packed + at, k, /*add=*/false, sums + at);
  }
}

void MultiplyPacked(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_step,
                    const float* packed, const float* from, int64_t from_step, float* c,
                    int64_t c_step) {
  alignas(64) float sums[kTileRows * kPackedColumns];
  for (int64_t column = 0; column < n; column += kPackedColumns, packed += k * kPackedColumns) {
    const int64_t columns = std::min(kPackedColumns, n - column);
    for (int64_t row = 0; row < m;) {
      const int64_t rows = m - row >= kTileRows ? kTileRows : m - row >= 2 ? 2 : 1;
      const float* const block = a + row * a_step;
      if (rows == kTileRows) {
        MultiplyPanel<kTileRows>(block, a_step, packed, k, columns, sums);
      } else if (rows == 2) {
        MultiplyPanel<2>(block, a_step, packed, k, columns, sums);
      } else {
        MultiplyPanel<1>(block, a_step, packed, k, columns, sums);
      }
      for (int64_t r = 0; r < rows; ++r) {
        const float* const old = from + (row + r) * from_step + column;
        float* const to = c + (row + r) * c_step + column;
        for (int64_t j = 0; j < columns; ++j) to[j] = old[j] + sums[r * kPackedColumns + j];
      }
      row += rows;
    }
  }
}

// A vector of units, of which the first n exist.
struct Part {
  D d;
  size_t n;

  HWY_INLINE V Load(const float* from) const {
    return n == hn::Lanes(d) ? hn::LoadU(d, from) : LoadPadded(d, from, n, 0.0f);
  }
  HWY_INLINE void Store(V v, float* to) const {
    if (n == hn::Lanes(d)) return hn::StoreU(v, d, to);
    StorePartial(d, v, to, n);
  }
  HWY_INLINE V one() const { return hn::Set(d, 1.0f); }
  // 1 - x, and x (1 - x).
  HWY_INLINE V Rest(V x) const { return hn::Sub(one(), x); }
  HWY_INLINE V Slope(V x) const { return hn::Mul(x, Rest(x)); }
};

// Calls f(part, j) for all units.
template <class F>
HWY_INLINE void ForUnits(int64_t units, const F& f) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < units; j += lanes) {
    f(Part{d, static_cast<size_t>(std::min(lanes, units - j))}, j);
  }
}

void LstmRow(int64_t u, float* gates, const float* old_cell, float* cell, float* state) {
  ForUnits(u, [&](const Part& p, int64_t j) HWY_ATTR {
    const V i = Sigmoid(p.d, p.Load(gates + j)), f = Sigmoid(p.d, p.Load(gates + u + j));
    const V z = SafeTanh(p.d, p.Load(gates + 2 * u + j));
    const V o = Sigmoid(p.d, p.Load(gates + 3 * u + j));
    const V c = hn::MulAdd(f, p.Load(old_cell + j), hn::Mul(i, z));
    p.Store(i, gates + j);
    p.Store(f, gates + u + j);
    p.Store(z, gates + 2 * u + j);
    p.Store(o, gates + 3 * u + j);
    p.Store(c, cell + j);
    p.Store(hn::Mul(o, SafeTanh(p.d, c)), state + j);
  });
}

void LstmGradRow(int64_t u, const float* dh, const float* gates, const float* cells,
                 const float* old_cells, float* state, float* cell, float* dx) {
  ForUnits(u, [&](const Part& p, int64_t j) HWY_ATTR {
    const V i = p.Load(gates + j), f = p.Load(gates + u + j);
    const V z = p.Load(gates + 2 * u + j), o = p.Load(gates + 3 * u + j);
    const V grad = hn::Add(p.Load(dh + j), p.Load(state + j));
    const V t = SafeTanh(p.d, p.Load(cells + j));
    const V through = hn::Mul(hn::Mul(grad, o), p.Rest(hn::Mul(t, t)));
    const V dc = hn::Add(p.Load(cell + j), through);
    p.Store(hn::Mul(hn::Mul(dc, z), p.Slope(i)), dx + j);
    p.Store(hn::Mul(hn::Mul(dc, p.Load(old_cells + j)), p.Slope(f)), dx + u + j);
    p.Store(hn::Mul(hn::Mul(dc, i), p.Rest(hn::Mul(z, z))), dx + 2 * u + j);
    p.Store(hn::Mul(hn::Mul(grad, t), p.Slope(o)), dx + 3 * u + j);
    p.Store(hn::Mul(dc, f), cell + j);
    p.Store(hn::Zero(p.d), state + j);
  });
}

void GruRow(int64_t u, const float* x, const float* product, const float* old_state, float* gates,
            float* state) {
  ForUnits(u, [&](const Part& p, int64_t j) HWY_ATTR {
    const auto sum = [&](int64_t at)
                         HWY_ATTR { return hn::Add(p.Load(x + at), p.Load(product + at)); };
    const V z = Sigmoid(p.d, sum(j)), r = Sigmoid(p.d, sum(u + j));
    const V inner = p.Load(product + 2 * u + j);
    const V candidate = SafeTanh(p.d, hn::MulAdd(r, inner, p.Load(x + 2 * u + j)));
    p.Store(z, gates + j);
    p.Store(r, gates + u + j);
    p.Store(candidate, gates + 2 * u + j);
    p.Store(inner, gates + 3 * u + j);
    p.Store(hn::MulAdd(z, p.Load(old_state + j), hn::Mul(p.Rest(z), candidate)), state + j);
  });
}

void GruGradRow(int64_t u, const float* dh, const float* gates, const float* old_states,
                float* state, float* dx, float* dproduct) {
  ForUnits(u, [&](const Part& p, int64_t j) HWY_ATTR {
    const V z = p.Load(gates + j), r = p.Load(gates + u + j);
    const V candidate = p.Load(gates + 2 * u + j);
    const V grad = hn::Add(p.Load(dh + j), p.Load(state + j));
    const V difference = hn::Sub(p.Load(old_states + j), candidate);
    const V dz = hn::Mul(hn::Mul(grad, difference), p.Slope(z));
    const V dc = hn::Mul(hn::Mul(grad, p.Rest(z)), p.Rest(hn::Mul(candidate, candidate)));
    const V dr = hn::Mul(hn::Mul(dc, p.Load(gates + 3 * u + j)), p.Slope(r));
    for (float* const to : {dx, dproduct}) {
      p.Store(dz, to + j);
      p.Store(dr, to + u + j);
    }
    p.Store(dc, dx + 2 * u + j);
    p.Store(hn::Mul(dc, r), dproduct + 2 * u + j);
    p.Store(hn::Mul(grad, z), state + j);
  });
}

void SimpleRnnGradRow(int64_t u, const float* dh, const float* h, float* state, float* dx) {
  ForUnits(u, [&](const Part& p, int64_t j) HWY_ATTR {
    const V value = p.Load(h + j), grad = hn::Add(p.Load(dh + j), p.Load(state + j));
    p.Store(hn::Mul(grad, p.Rest(hn::Mul(value, value))), dx + j);
    p.Store(hn::Zero(p.d), state + j);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {
HWY_EXPORT(MultiplyPacked);
HWY_EXPORT(LstmRow);
HWY_EXPORT(LstmGradRow);
HWY_EXPORT(GruRow);
HWY_EXPORT(GruGradRow);
HWY_EXPORT(SimpleRnnGradRow);

int64_t PackedFloats(int64_t k, int64_t n) {
  return (n + kPackedColumns - 1) / kPackedColumns * kPackedColumns * k;
}

void PackFloat(const float* b, bool transposed, int64_t k, int64_t n, float* packed) {
  for (int64_t column = 0; column < n; column += kPackedColumns) {
    const int64_t columns = std::min(kPackedColumns, n - column);
    for (int64_t p = 0; p < k; ++p, packed += kPackedColumns) {
      for (int64_t j = 0; j < columns; ++j) {
        packed[j] = transposed ? b[(column + j) * k + p] : b[p * n + column + j];
      }
      std::fill(packed + columns, packed + kPackedColumns, 0.0f);
    }
  }
}

void MultiplyPackedFloat(int64_t m, int64_t n, int64_t k, FloatRows a, const float* packed,
                         FloatRows from, float* c, int64_t c_step) {
  HWY_DYNAMIC_DISPATCH(MultiplyPacked)
  (m, n, k, a.data, a.step, packed, from.data, from.step, c, c_step);
}

void LstmRowFloat(int64_t units, float* gates, const float* old_cell, float* cell, float* state) {
  HWY_DYNAMIC_DISPATCH(LstmRow)(units, gates, old_cell, cell, state);
}

void LstmGradRowFloat(int64_t units, const float* dh, const float* gates, const float* cells,
                      const float* old_cells, float* state, float* cell, float* dx) {
  HWY_DYNAMIC_DISPATCH(LstmGradRow)(units, dh, gates, cells, old_cells, state, cell, dx);
}

void GruRowFloat(int64_t units, const float* x, const float* product, const float* old_state,
                 float* gates, float* state) {
  HWY_DYNAMIC_DISPATCH(GruRow)(units, x, product, old_state, gates, state);
}

void GruGradRowFloat(int64_t units, const float* dh, const float* gates, const float* old_states,
                     float* state, float* dx, float* dproduct) {
  HWY_DYNAMIC_DISPATCH(GruGradRow)(units, dh, gates, old_states, state, dx, dproduct);
}

void SimpleRnnGradRowFloat(int64_t units, const float* dh, const float* h, float* state,
                           float* dx) {
  HWY_DYNAMIC_DISPATCH(SimpleRnnGradRow)(units, dh, h, state, dx);
}

}  // namespace cohort
#endif  // HWY_ONCE
