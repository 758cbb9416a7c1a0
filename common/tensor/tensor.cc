#include "common/tensor/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

namespace cohort {

int64_t NumElements(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

std::string DimsToString(std::span<const int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Tensor::Tensor(DType dtype, Dims dims)
    : dtype_(dtype), dims_(std::move(dims)), elements_(NumElements(dims_)) {
  buffer_ = BufferRef::Allocate(num_bytes());
}

Tensor::Tensor(DType dtype, Dims dims, BufferRef buffer, size_t byte_offset)
    : dtype_(dtype),
      dims_(std::move(dims)),
      elements_(NumElements(dims_)),
      buffer_(std::move(buffer)),
      offset_(byte_offset) {}

Tensor Tensor::Zeros(DType dtype, Dims dims) {
  Tensor t(dtype, std::move(dims));
  std::memset(t.raw(), 0, t.num_bytes());
  return t;
}

}  // namespace cohort
