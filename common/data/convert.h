#ifndef COHORT_COMMON_DATA_CONVERT_H_
#define COHORT_COMMON_DATA_CONVERT_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/tensor/dtype.h"

namespace cohort {

// Converts a value to the type of a batch and scales it there. Integer types cut off fractions, get
// the nearest value that they can hold, and 0 for a NaN.
template <typename Out, typename In>
Out ConvertNumber(In value, double scale, double offset) {
  if constexpr (std::is_same_v<Out, bool>) {
    return static_cast<double>(value) * scale + offset != 0;
  } else if constexpr (std::is_floating_point_v<Out>) {
    return static_cast<Out>(value) * static_cast<Out>(scale) + static_cast<Out>(offset);
  } else {
    static_assert(std::is_floating_point_v<In> || sizeof(In) < 8 || std::is_signed_v<In>);
    if constexpr (std::is_integral_v<In>) {
      if (scale == 1 && offset == 0) {
        return static_cast<Out>(std::clamp<int64_t>(static_cast<int64_t>(value),
                                                    std::numeric_limits<Out>::min(),
                                                    std::numeric_limits<Out>::max()));
      }
    }
    const double exact = static_cast<double>(value) * scale + offset;
    if (std::isnan(exact)) return 0;
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

// Converts `count` values. Neither side need be aligned, and they do not overlap.
using Converter = void (*)(const void* in, void* out, size_t count, double scale, double offset);
Converter ConverterOf(DType from, DType to);
void ConvertNumbers(DType from, const void* in, DType to, void* out, size_t count, double scale = 1,
                    double offset = 0);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_CONVERT_H_
