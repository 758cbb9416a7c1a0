#ifndef COHORT_COMMON_TENSOR_DTYPE_H_
#define COHORT_COMMON_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cohort {

// The element types of tensors. The numbers are those of DType in proto/types.proto.
enum class DType : uint8_t {
  kInvalid = 0,
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kUint8 = 5,
  kBool = 6,  // one byte, 0 or 1
};

// Bytes of one element; 0 for kInvalid.
constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kUint8:
    case DType::kBool:
      return 1;
    case DType::kInvalid:
      return 0;
  }
  return 0;
}

constexpr bool IsFloating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// "float32", as Keras writes it; "invalid".
std::string_view DTypeName(DType dtype);
// The inverse; nullopt for an unknown name.
std::optional<DType> DTypeFromName(std::string_view name);

template <typename T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<float>() {
  return DType::kFloat32;
}
template <>
constexpr DType DTypeOf<double>() {
  return DType::kFloat64;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kInt32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kInt64;
}
template <>
constexpr DType DTypeOf<uint8_t>() {
  return DType::kUint8;
}
template <>
constexpr DType DTypeOf<bool>() {
  return DType::kBool;
}

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_DTYPE_H_
