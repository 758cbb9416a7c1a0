#ifndef COHORT_COMMON_DATA_CONVERT_H_
#define COHORT_COMMON_DATA_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/tensor/dtype.h"

namespace cohort {

// Converts a value to the type of a batch and scales it there. An integer type that cannot hold it
// gets the nearest value.
template <typename Out, typename In>
Out ConvertNumber(In value, double scale, double offset) {
  if constexpr (std::is_same_v<Out, bool>) {
    return static_cast<double>(value) * scale + offset != 0;
  } else if constexpr (std::is_floating_point_v<Out>) {
    return static_cast<Out>(value) * static_cast<Out>(scale) + static_cast<Out>(offset);
  } else {
    if (std::is_integral_v<In> && scale == 1 && offset == 0) return static_cast<Out>(value);
    const double exact = static_cast<double>(value) * scale + offset;
    if (exact <= static_cast<double>(std::numeric_limits<Out>::min())) {
      return std::numeric_limits<Out>::min();
    }
    if (exact >= static_cast<double>(std::numeric_limits<Out>::max())) {
      return std::numeric_limits<Out>::max();
    }
    return static_cast<Out>(exact);
  }
}

// Calls f with a zero of the C++ type.
template <typename F>
void WithType(DType dtype, const F& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUint8:
      return f(uint8_t{});
    case DType::kBool:
      return f(bool{});
    case DType::kInvalid:
      return;
  }
}

// Converts `count` values. Neither side need be aligned.
void ConvertNumbers(DType from, const void* in, DType to, void* out, size_t count, double scale = 1,
                    double offset = 0);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_CONVERT_H_
