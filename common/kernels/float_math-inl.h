// The functions of one vector of floats that several files of loops share. Compiled once per
// instruction set, as Highway's own files with such names.
#if defined(COHORT_COMMON_KERNELS_FLOAT_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COHORT_COMMON_KERNELS_FLOAT_MATH_INL_H_
#undef COHORT_COMMON_KERNELS_FLOAT_MATH_INL_H_
#else
#define COHORT_COMMON_KERNELS_FLOAT_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V LoadPadded(D d, const float* x, size_t n, float fill) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(hn::Set(d, fill), d, lanes);
  for (size_t i = 0; i < n; ++i) lanes[i] = x[i];
  return hn::Load(d, lanes);
}

HWY_INLINE void StorePartial(D d, V v, float* y, size_t n) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < n; ++i) y[i] = lanes[i];
}

// Highway's Exp wraps above its range and loses NaN.
HWY_INLINE V SafeExp(D d, V x) {
  const V y = hn::Exp(d, hn::Min(x, hn::Set(d, 89.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, SafeExp(d, hn::Neg(x))));
}

HWY_INLINE V SafeTanh(D d, V x) {
  // Beyond 10 the nearest float is 1.
  const V bound = hn::Set(d, 10.0f);
  const V y = hn::Tanh(d, hn::Min(hn::Max(x, hn::Neg(bound)), bound));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#endif  // COHORT_COMMON_KERNELS_FLOAT_MATH_INL_H_
