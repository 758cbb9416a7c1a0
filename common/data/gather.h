#ifndef COHORT_COMMON_DATA_GATHER_H_
#define COHORT_COMMON_DATA_GATHER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "common/data/table.h"

namespace cohort {

// A column that is ready for batches. A number column of another dtype is converted once. Bytes
// stay bytes (a quarter of the memory of float32), and are converted and scaled when gathered.
class GatheredColumn {
 public:
  // `column` holds numbers. Its scale is applied in the batch's dtype, as Keras' Rescaling does.
  GatheredColumn(const Column& column, uint64_t records);

  // Writes records `indices` to `out`, [indices.size(), dims...] of dtype(). Indices are in range.
  void Gather(std::span<const uint64_t> indices, void* out) const { kernel_(*this, indices, out); }

 private:
  using Kernel = void (*)(const GatheredColumn&, std::span<const uint64_t>, void*);

  template <size_t kBytes>
  static void CopyFixed(const GatheredColumn& self, std::span<const uint64_t> indices, void* out);
  static void CopyRows(const GatheredColumn& self, std::span<const uint64_t> indices, void* out);
  template <typename T>
  static void ConvertBytes(const GatheredColumn& self, std::span<const uint64_t> indices,
                           void* out);
  static Kernel CopyKernel(size_t row_bytes);
  static Kernel ByteKernel(DType dtype);

  std::shared_ptr<const std::vector<uint8_t>> values_;
  size_t elements_;   // in one record
  size_t row_bytes_;  // in one stored record
  double scale_;
  double offset_;
  Kernel kernel_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_GATHER_H_
