#include "common/data/convert.h"

#include <cstring>

namespace cohort {
namespace {

template <typename In, typename Out>
void Convert(const void* in, void* out, size_t count, double scale, double offset) {
  // Memory that does not overlap lets the compiler make vector code.
  const uint8_t* __restrict from = static_cast<const uint8_t*>(in);
  uint8_t* __restrict to = static_cast<uint8_t*>(out);
  for (size_t i = 0; i < count; ++i) {
    In value;
    std::memcpy(&value, from + i * sizeof(In), sizeof(In));
    const Out result = ConvertNumber<Out>(value, scale, offset);
    std::memcpy(to + i * sizeof(Out), &result, sizeof(Out));
  }
}

}  // namespace

Converter ConverterOf(DType from, DType to) {
  Converter converter = nullptr;
  WithType(from, [&](auto value) {
    WithType(to, [&](auto result) { converter = Convert<decltype(value), decltype(result)>; });
  });
  return converter;
}

void ConvertNumbers(DType from, const void* in, DType to, void* out, size_t count, double scale,
                    double offset) {
  if (from == to && scale == 1 && offset == 0) {
    std::memcpy(out, in, count * SizeOf(from));
  } else {
    ConverterOf(from, to)(in, out, count, scale, offset);
  }
}

}  // namespace cohort
