#include "common/tensor/dtype.h"

#include <array>
#include <utility>

namespace cohort {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, 6> kNames = {{
    {DType::kFloat32, "float32"},
    {DType::kFloat64, "float64"},
    {DType::kInt32, "int32"},
    {DType::kInt64, "int64"},
    {DType::kUint8, "uint8"},
    {DType::kBool, "bool"},
}};

}  // namespace

std::string_view DTypeName(DType dtype) {
  for (const auto& [type, name] : kNames) {
    if (type == dtype) return name;
  }
  return "invalid";
}

std::optional<DType> DTypeFromName(std::string_view name) {
  for (const auto& [type, known] : kNames) {
    if (known == name) return type;
  }
  return std::nullopt;
}

}  // namespace cohort
