#ifndef COHORT_COMMON_COLLECTIVE_ELEMENT_SPAN_H_
#define COHORT_COMMON_COLLECTIVE_ELEMENT_SPAN_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/dtype.h"

namespace cohort {

// The memory of a buffer of float32 or float64, which belongs to the caller.
class ElementSpan {
 public:
  ElementSpan() = default;
  ElementSpan(std::span<float> values)  // NOLINT: converts
      : ElementSpan(DType::kFloat32, values.data(), values.size()) {}
  ElementSpan(std::span<double> values)  // NOLINT: converts
      : ElementSpan(DType::kFloat64, values.data(), values.size()) {}
  // `data` is aligned to the size of an element.
  ElementSpan(DType dtype, void* data, size_t elements)
      : dtype_(dtype), data_(static_cast<uint8_t*>(data)), elements_(elements) {}

  DType dtype() const { return dtype_; }
  uint64_t elements() const { return elements_; }
  // The address of one element.
  uint8_t* at(uint64_t element) const { return data_ + element * SizeOf(dtype_); }

 private:
  DType dtype_ = DType::kFloat32;
  uint8_t* data_ = nullptr;
  uint64_t elements_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_ELEMENT_SPAN_H_
