#include "common/exec/finite_pushes.h"

#include <cstdint>

namespace cohort {
namespace {

// The bits of the exponent are all set for NaN and infinity only. Without branches, so that the
// loop is vectorized.
template <typename Bits>
bool AllFinite(const void* values, int64_t count, Bits exponent) {
  const auto* const bits = static_cast<const Bits*>(values);
  Bits found = 0;
  for (int64_t i = 0; i < count; ++i) {
    found |= static_cast<Bits>((bits[i] & exponent) == exponent ? 1 : 0);
  }
  return found == 0;
}

// The elements of one row of a sparse push.
int64_t RowElements(const ValueType& type) {
  int64_t elements = 1;
  for (size_t d = 1; d < type.dims.size(); ++d) elements *= type.dims[d].size;
  return elements;
}

}  // namespace

bool PushesAreFinite(const Program& program, std::span<const PushItem> pushes) {
  for (const PushItem& push : pushes) {
    if (push.value == nullptr) continue;
    const ValueType& type = program.variables[static_cast<size_t>(push.variable)].type;
    const int64_t count = push.sparse ? static_cast<int64_t>(push.keys.size()) * RowElements(type)
                                      : CapacityElements(type);
    const bool finite =
        type.dtype == DType::kFloat32   ? AllFinite<uint32_t>(push.value, count, 0x7f800000)
        : type.dtype == DType::kFloat64 ? AllFinite<uint64_t>(push.value, count, 0x7ff0000000000000)
                                        : true;
    if (!finite) return false;
  }
  return true;
}

}  // namespace cohort
