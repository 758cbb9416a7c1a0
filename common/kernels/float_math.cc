#include "common/kernels/float_math.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/kernels/float_math.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

#include "common/kernels/float_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// y[i] = f(x[i]).
template <class F>
HWY_INLINE void Map(const float* x, float* y, int64_t count, const F& f) {
  const D d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  if (i < n) StorePartial(d, f(d, LoadPadded(d, x + i, n - i, 0.0f)), y + i, n - i);
}

// Highway's Log is defined for finite positive numbers only.
HWY_INLINE V SafeLog(D d, V x) {
  const V infinity = hn::Set(d, kInfinity);
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y,
                        hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
}

// c[0] + c[1] x + c[2] x^2 + ...
template <size_t N>
HWY_INLINE V Polynomial(D d, V x, const float (&c)[N]) {
  V y = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) y = hn::Add(hn::Mul(y, x), hn::Set(d, c[i]));
  return y;
}

// Polynomials fitted to erf(x) / x in x^2 for |x| < 1 and to log(1 - erf(x)) for 1 <= x <= 4;
// beyond 4 the nearest float is 1.
HWY_INLINE V ErfOf(D d, V x) {
  constexpr float kSmall[] = {1.1283791670631547f,     -0.3761263848377474f,
                              0.11283782746647719f,    -0.026865445788033154f,
                              0.005221074782304699f,   -0.0008484710038694498f,
                              0.00011270534198269677f, -9.680106904386143e-06f};
  constexpr float kLogRest[] = {
      0.00020437555996902793f, -1.129661239015348f,     -0.6330394281715555f,
      -0.10863923048632823f,   0.025373735812606657f,   -0.0042824700375161395f,
      0.0004638140024346149f,  -2.531912968595229e-05f, 2.5163429984154106e-07f};
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 4.0f));
  const V small = hn::Mul(a, Polynomial(d, hn::Mul(a, a), kSmall));
  const V large = hn::Sub(hn::Set(d, 1.0f), hn::Exp(d, Polynomial(d, a, kLogRest)));
  const V y = hn::IfThenElse(hn::Lt(a, hn::Set(d, 1.0f)), small, large);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

HWY_INLINE V SoftplusOf(D d, V x) {
  const V log = hn::Log1p(d, SafeExp(d, hn::Neg(hn::Abs(x))));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Add(hn::Max(x, hn::Zero(d)), log));
}

void Erf(const float* x, float* y, int64_t n) { Map(x, y, n, ErfOf); }
void Softplus(const float* x, float* y, int64_t n) { Map(x, y, n, SoftplusOf); }
void Exp(const float* x, float* y, int64_t n) { Map(x, y, n, SafeExp); }
void Log(const float* x, float* y, int64_t n) { Map(x, y, n, SafeLog); }
void SigmoidAll(const float* x, float* y, int64_t n) { Map(x, y, n, Sigmoid); }
void Tanh(const float* x, float* y, int64_t n) { Map(x, y, n, SafeTanh); }

HWY_INLINE float RowMax(D d, const float* x, size_t n) {
  const size_t lanes = hn::Lanes(d);
  V max = hn::Set(d, -kInfinity);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) max = hn::Max(max, hn::LoadU(d, x + i));
  if (i < n) max = hn::Max(max, LoadPadded(d, x + i, n - i, -kInfinity));
  const float result = hn::GetLane(hn::MaxOfLanes(d, max));
  // A row of -infinity would give (-inf) - (-inf).
  return result == -kInfinity ? 0.0f : result;
}

// Sum of exp(x - max); stores the terms where `y` is not null.
HWY_INLINE float RowExpSum(D d, const float* x, float max, float* y, size_t n) {
  const size_t lanes = hn::Lanes(d);
  const V m = hn::Set(d, max);
  V sum = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V e = SafeExp(d, hn::Sub(hn::LoadU(d, x + i), m));
    if (y != nullptr) hn::StoreU(e, d, y + i);
    sum = hn::Add(sum, e);
  }
  if (i < n) {
    const V e = SafeExp(d, hn::Sub(LoadPadded(d, x + i, n - i, -kInfinity), m));
    if (y != nullptr) StorePartial(d, e, y + i, n - i);
    sum = hn::Add(sum, e);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE float LogOne(D d, float x) { return hn::GetLane(SafeLog(d, hn::Set(d, x))); }

void SoftmaxRows(const float* x, float* y, int64_t rows, int64_t n) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const size_t count = static_cast<size_t>(n);
    const float sum = RowExpSum(d, x, RowMax(d, x, count), y, count);
    for (size_t i = 0; i < count; ++i) y[i] /= sum;
  }
}

void LogSoftmaxRows(const float* x, float* y, int64_t rows, int64_t n) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const size_t count = static_cast<size_t>(n);
    const float max = RowMax(d, x, count);
    const float log_sum = LogOne(d, RowExpSum(d, x, max, nullptr, count));
    for (size_t i = 0; i < count; ++i) y[i] = x[i] - max - log_sum;
  }
}

void LogSumExpRows(const float* x, float* y, int64_t rows, int64_t n) {
  const D d;
  for (int64_t r = 0; r < rows; ++r, x += n) {
    const size_t count = static_cast<size_t>(n);
    const float max = RowMax(d, x, count);
    y[r] = max + LogOne(d, RowExpSum(d, x, max, nullptr, count));
  }
}

void SigmoidCrossEntropy(const float* labels, const float* logits, float* y, int64_t count) {
  const D d;
  const size_t lanes = hn::Lanes(d), n = static_cast<size_t>(count);
  const auto f = [d](V z, V x) HWY_ATTR {
    const V log = hn::Log1p(d, SafeExp(d, hn::Neg(hn::Abs(x))));
    return hn::Add(hn::Sub(hn::Max(x, hn::Zero(d)), hn::Mul(x, z)), log);
  };
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(f(hn::LoadU(d, labels + i), hn::LoadU(d, logits + i)), d, y + i);
  }
  if (i == n) return;
  const size_t rest = n - i;
  StorePartial(d, f(LoadPadded(d, labels + i, rest, 0.0f), LoadPadded(d, logits + i, rest, 0.0f)),
               y + i, rest);
}

#if HWY_TARGET != HWY_SCALAR
// High 32 bits of the products of 32-bit lanes.
template <class DU, class VU>
HWY_INLINE VU MulHigh32(DU du, VU a, VU b) {
  const hn::RepartitionToWide<DU> dw;
  const auto even = hn::MulEven(a, b);
  const VU a_odd = hn::BitCast(du, hn::ShiftRight<32>(hn::BitCast(dw, a)));
  const auto odd = hn::MulEven(a_odd, b);
  return hn::OddEven(hn::BitCast(du, odd), hn::BitCast(du, hn::ShiftRight<32>(even)));
}

// The blocks of as many whole vectors as there are; returns how many.
HWY_INLINE int64_t VectorWords(const PhiloxBlock& counter, const PhiloxKey& key, int64_t blocks,
                               uint32_t* words) {
  const hn::ScalableTag<uint32_t> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(du));
  const auto multiplier_a = hn::Set(du, kPhiloxMultiplierA);
  const auto multiplier_b = hn::Set(du, kPhiloxMultiplierB);
  int64_t block = 0;
  for (; block + lanes <= blocks; block += lanes) {
    auto c0 = hn::Iota(du, counter[0] + static_cast<uint32_t>(block));
    auto c1 = hn::Set(du, counter[1]), c2 = hn::Set(du, counter[2]), c3 = hn::Set(du, counter[3]);
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < kPhiloxRounds; ++round) {
      const auto high_a = MulHigh32(du, c0, multiplier_a), low_a = hn::Mul(c0, multiplier_a);
      const auto high_b = MulHigh32(du, c2, multiplier_b), low_b = hn::Mul(c2, multiplier_b);
      c0 = hn::Xor(hn::Xor(high_b, c1), hn::Set(du, k0));
      c1 = low_b;
      c2 = hn::Xor(hn::Xor(high_a, c3), hn::Set(du, k1));
      c3 = low_a;
      k0 += kPhiloxWeylA;
      k1 += kPhiloxWeylB;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, du, words + 4 * block);
  }
  return block;
}
#else
HWY_INLINE int64_t VectorWords(const PhiloxBlock&, const PhiloxKey&, int64_t, uint32_t*) {
  return 0;
}
#endif

void Words(const PhiloxBlock& counter, const PhiloxKey& key, int64_t blocks, uint32_t* words) {
  for (int64_t block = VectorWords(counter, key, blocks, words); block < blocks; ++block) {
    const PhiloxBlock b = Philox(
        {counter[0] + static_cast<uint32_t>(block), counter[1], counter[2], counter[3]}, key);
    for (size_t i = 0; i < 4; ++i) words[4 * static_cast<size_t>(block) + i] = b[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {

HWY_EXPORT(Exp);
HWY_EXPORT(Log);
HWY_EXPORT(SigmoidAll);
HWY_EXPORT(Tanh);
HWY_EXPORT(Erf);
HWY_EXPORT(Softplus);
HWY_EXPORT(SoftmaxRows);
HWY_EXPORT(LogSoftmaxRows);
HWY_EXPORT(LogSumExpRows);
HWY_EXPORT(SigmoidCrossEntropy);
HWY_EXPORT(Words);

void ExpFloat(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Exp)(x, y, n); }
void LogFloat(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Log)(x, y, n); }
void SigmoidFloat(const float* x, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SigmoidAll)(x, y, n);
}
void TanhFloat(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Tanh)(x, y, n); }
void ErfFloat(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Erf)(x, y, n); }
void SoftplusFloat(const float* x, float* y, int64_t n) { HWY_DYNAMIC_DISPATCH(Softplus)(x, y, n); }
void SoftmaxRowsFloat(const float* x, float* y, int64_t rows, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SoftmaxRows)(x, y, rows, n);
}
void LogSoftmaxRowsFloat(const float* x, float* y, int64_t rows, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LogSoftmaxRows)(x, y, rows, n);
}
void LogSumExpRowsFloat(const float* x, float* y, int64_t rows, int64_t n) {
  HWY_DYNAMIC_DISPATCH(LogSumExpRows)(x, y, rows, n);
}
void SigmoidCrossEntropyFloat(const float* labels, const float* logits, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(SigmoidCrossEntropy)(labels, logits, y, n);
}
void PhiloxWords(PhiloxBlock counter, PhiloxKey key, int64_t blocks, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(Words)(counter, key, blocks, words);
}

}  // namespace cohort
#endif  // HWY_ONCE
