#include "common/collective/add_elements.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/collective/add_elements.cc"
#include <hwy/foreach_target.h>
// foreach_target.h first.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cohort {
namespace HWY_NAMESPACE {

// The compiler makes vector code of the loop.
template <typename T>
HWY_INLINE void Add(T* __restrict sum, const uint8_t* __restrict values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    sum[i] += value;
  }
}

void AddFloat(float* sum, const uint8_t* values, size_t count) { Add(sum, values, count); }
void AddDouble(double* sum, const uint8_t* values, size_t count) { Add(sum, values, count); }

}  // namespace HWY_NAMESPACE
}  // namespace cohort
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cohort {

HWY_EXPORT(AddFloat);
HWY_EXPORT(AddDouble);

void AddElements(DType dtype, uint8_t* sum, const uint8_t* values, size_t count) {
  if (dtype == DType::kFloat32) {
    HWY_DYNAMIC_DISPATCH(AddFloat)(reinterpret_cast<float*>(sum), values, count);
  } else {
    HWY_DYNAMIC_DISPATCH(AddDouble)(reinterpret_cast<double*>(sum), values, count);
  }
}

void AddPieces(DType dtype, uint8_t* sum, std::span<const std::span<const uint8_t>> pieces) {
  const size_t item = SizeOf(dtype);
  uint8_t crossing[8];  // an element that crosses pieces
  size_t filled = 0;
  for (std::span<const uint8_t> piece : pieces) {
    if (filled > 0) {
      const size_t taken = std::min(item - filled, piece.size());
      std::copy_n(piece.begin(), taken, crossing + filled);
      piece = piece.subspan(taken);
      filled += taken;
      if (filled < item) continue;
      AddElements(dtype, sum, crossing, 1);
      sum += item;
    }
    const size_t whole = piece.size() / item;
    AddElements(dtype, sum, piece.data(), whole);
    sum += whole * item;
    filled = piece.size() - whole * item;
    std::copy_n(piece.end() - static_cast<std::ptrdiff_t>(filled), filled, crossing);
  }
}

}  // namespace cohort
#endif  // HWY_ONCE
