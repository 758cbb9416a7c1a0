#ifndef COHORT_COMMON_CHECKPOINT_SAFETENSORS_FORMAT_H_
#define COHORT_COMMON_CHECKPOINT_SAFETENSORS_FORMAT_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "common/tensor/dtype.h"

// Shared by the writer and the reader of the format.
namespace cohort::safetensors {

inline constexpr size_t kLengthBytes = 8;
// The limit of the reference implementation, which refuses a longer header too.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr char kMetadataKey[] = "__metadata__";

// "F32"; "" for kInvalid.
constexpr std::string_view NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kFloat64:
      return "F64";
    case DType::kInt32:
      return "I32";
    case DType::kInt64:
      return "I64";
    case DType::kUint8:
      return "U8";
    case DType::kBool:
      return "BOOL";
    case DType::kInvalid:
      return "";
  }
  return "";
}

// The inverse; kInvalid if Cohort has no dtype of this name.
constexpr DType DTypeOfName(std::string_view name) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt32, DType::kInt64,
                            DType::kUint8, DType::kBool}) {
    if (NameOf(dtype) == name) return dtype;
  }
  return DType::kInvalid;
}

// The bytes of a tensor; nullopt if a size is negative or the product exceeds int64.
inline std::optional<uint64_t> BytesOf(DType dtype, std::span<const int64_t> dims) {
  uint64_t bytes = SizeOf(dtype);
  bool empty = false;
  for (const int64_t size : dims) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
    } else if (bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / size)) {
      return std::nullopt;
    } else {
      bytes *= static_cast<uint64_t>(size);
    }
  }
  return empty ? 0 : bytes;
}

}  // namespace cohort::safetensors

#endif  // COHORT_COMMON_CHECKPOINT_SAFETENSORS_FORMAT_H_
