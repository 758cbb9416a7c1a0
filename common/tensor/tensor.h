#ifndef COHORT_COMMON_TENSOR_TENSOR_H_
#define COHORT_COMMON_TENSOR_TENSOR_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/tensor/buffer.h"
#include "common/tensor/dtype.h"

namespace cohort {

// Sizes of the axes, outermost first; {} is a scalar.
using Dims = std::vector<int64_t>;

// The product of the sizes; 1 for a scalar.
int64_t NumElements(std::span<const int64_t> dims);
// "[2, 3]".
std::string DimsToString(std::span<const int64_t> dims);

// A dense row-major tensor in host memory that shares its buffer with its copies.
class Tensor {
 public:
  Tensor() = default;
  // Not initialized.
  Tensor(DType dtype, Dims dims);
  Tensor(DType dtype, Dims dims, BufferRef buffer, size_t byte_offset = 0);

  template <typename T>
  static Tensor FromValues(Dims dims, std::span<const T> values);
  template <typename T>
  static Tensor Scalar(T value) {
    return FromValues<T>({}, std::span<const T>(&value, 1));
  }
  static Tensor Zeros(DType dtype, Dims dims);

  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  int64_t num_elements() const { return elements_; }
  size_t num_bytes() const { return static_cast<size_t>(elements_) * SizeOf(dtype_); }
  const BufferRef& buffer() const { return buffer_; }
  size_t byte_offset() const { return offset_; }

  void* raw() { return buffer_->data() + offset_; }
  const void* raw() const { return buffer_->data() + offset_; }

  // The caller must have checked the dtype.
  template <typename T>
  std::span<T> mutable_values() {
    return {static_cast<T*>(raw()), static_cast<size_t>(elements_)};
  }
  template <typename T>
  std::span<const T> values() const {
    return {static_cast<const T*>(raw()), static_cast<size_t>(elements_)};
  }

 private:
  DType dtype_ = DType::kInvalid;
  Dims dims_;
  int64_t elements_ = 0;
  BufferRef buffer_;
  size_t offset_ = 0;
};

template <typename T>
Tensor Tensor::FromValues(Dims dims, std::span<const T> values) {
  Tensor t(DTypeOf<T>(), std::move(dims));
  std::copy(values.begin(), values.end(), t.mutable_values<T>().begin());
  return t;
}

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_TENSOR_H_
