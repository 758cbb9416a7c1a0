#include "common/data/convert.h"

#include <cstring>

namespace cohort {

void ConvertNumbers(DType from, const void* in, DType to, void* out, size_t count, double scale,
                    double offset) {
  if (from == to && scale == 1 && offset == 0) {
    std::memcpy(out, in, count * SizeOf(from));
    return;
  }
  const auto* source = static_cast<const uint8_t*>(in);
  auto* target = static_cast<uint8_t*>(out);
  WithType(from, [&](auto value) {
    WithType(to, [&](auto result) {
      for (size_t i = 0; i < count; ++i) {
        std::memcpy(&value, source + i * sizeof(value), sizeof(value));
        result = ConvertNumber<decltype(result)>(value, scale, offset);
        std::memcpy(target + i * sizeof(result), &result, sizeof(result));
      }
    });
  });
}

}  // namespace cohort
