#include <cstring>

#include "common/collective/fold.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/collective/sum_in_order.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_INLINE T LoadElement(const uint8_t* source, size_t i) {
  T value;
  std::memcpy(&value, source + i * sizeof(T), sizeof(T));
  return value;
}

template <class D>
HWY_INLINE hn::Vec<D> LoadVector(D d, const uint8_t* source, size_t i) {
  using T = hn::TFromD<D>;
  return hn::LoadU(d, reinterpret_cast<const T*>(source + i * sizeof(T)));
}

// Two sources are the usual case: four vectors at a time.
template <typename T>
HWY_INLINE void SumTwo(T* out, const uint8_t* a, const uint8_t* b, size_t count) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto v0 = hn::Add(LoadVector(d, a, i), LoadVector(d, b, i));
    const auto v1 = hn::Add(LoadVector(d, a, i + lanes), LoadVector(d, b, i + lanes));
    const auto v2 = hn::Add(LoadVector(d, a, i + 2 * lanes), LoadVector(d, b, i + 2 * lanes));
    const auto v3 = hn::Add(LoadVector(d, a, i + 3 * lanes), LoadVector(d, b, i + 3 * lanes));
    hn::StoreU(v0, d, out + i);
    hn::StoreU(v1, d, out + i + lanes);
    hn::StoreU(v2, d, out + i + 2 * lanes);
    hn::StoreU(v3, d, out + i + 3 * lanes);
  }
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Add(LoadVector(d, a, i), LoadVector(d, b, i)), d, out + i);
  }
  for (; i < count; ++i) out[i] = LoadElement<T>(a, i) + LoadElement<T>(b, i);
}

template <typename T>
HWY_INLINE void Sum(T* out, const uint8_t* const* sources, size_t terms, size_t count) {
  if (terms == 2) return SumTwo(out, sources[0], sources[1], count);
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    auto v0 = LoadVector(d, sources[0], i);
    auto v1 = LoadVector(d, sources[0], i + lanes);
    for (size_t k = 1; k < terms; ++k) {
      v0 = hn::Add(v0, LoadVector(d, sources[k], i));
      v1 = hn::Add(v1, LoadVector(d, sources[k], i + lanes));
    }
    hn::StoreU(v0, d, out + i);
    hn::StoreU(v1, d, out + i + lanes);
  }
  for (; i < count; ++i) {
    T value = LoadElement<T>(sources[0], i);
    for (size_t k = 1; k < terms; ++k) value += LoadElement<T>(sources[k], i);
    out[i] = value;
  }
}

void SumFloat(float* out, const uint8_t* const* sources, size_t terms, size_t count) {
  Sum(out, sources, terms, count);
}
void SumDouble(double* out, const uint8_t* const* sources, size_t terms, size_t count) {
  Sum(out, sources, terms, count);
}

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {

HWY_EXPORT(SumFloat);
HWY_EXPORT(SumDouble);

void SumInOrder(float* out, std::span<const uint8_t* const> sources, size_t count) {
  HWY_DYNAMIC_DISPATCH(SumFloat)(out, sources.data(), sources.size(), count);
}
void SumInOrder(double* out, std::span<const uint8_t* const> sources, size_t count) {
  HWY_DYNAMIC_DISPATCH(SumDouble)(out, sources.data(), sources.size(), count);
}

}  // namespace cohort
#endif  // HWY_ONCE
