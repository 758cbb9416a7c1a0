#include "common/data/gather.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "common/data/convert.h"

namespace cohort {
namespace {

// Prefetches the bytes of a row, at most kPrefetchBytes: the rest is fetched while it is read.
void Prefetch(const uint8_t* row, size_t bytes) {
  constexpr size_t kLine = 64, kPrefetchBytes = 4096;
  for (size_t b = 0; b < std::min(bytes, kPrefetchBytes); b += kLine) __builtin_prefetch(row + b);
}

// Converts the whole column to its batch dtype.
std::shared_ptr<const std::vector<uint8_t>> ConvertAll(const Column& column, uint64_t records) {
  const size_t elements = records * static_cast<size_t>(column.elements());
  std::vector<uint8_t> out(elements * SizeOf(column.dtype));
  ConvertNumbers(column.stored, column.values->data(), column.dtype, out.data(), elements,
                 column.scale, column.offset);
  return std::make_shared<const std::vector<uint8_t>>(std::move(out));
}

}  // namespace

GatheredColumn::GatheredColumn(const Column& column, uint64_t records)
    : values_(column.values),
      elements_(static_cast<size_t>(column.elements())),
      row_bytes_(elements_ * SizeOf(column.stored)),
      scale_(column.scale),
      offset_(column.offset) {
  if (column.stored == column.dtype && column.scale == 1 && column.offset == 0) {
    kernel_ = CopyKernel(row_bytes_);
  } else if (column.stored == DType::kUint8 && column.dtype != DType::kBool) {
    kernel_ = ByteKernel(column.dtype);
  } else {
    values_ = ConvertAll(column, records);
    row_bytes_ = elements_ * SizeOf(column.dtype);
    kernel_ = CopyKernel(row_bytes_);
  }
}

template <size_t kBytes>
void GatheredColumn::CopyFixed(const GatheredColumn& self, std::span<const uint64_t> indices,
                               void* out) {
  const uint8_t* from = self.values_->data();
  auto* to = static_cast<uint8_t*>(out);
  for (size_t i = 0; i < indices.size(); ++i) {
    std::memcpy(to + i * kBytes, from + indices[i] * kBytes, kBytes);
  }
}

void GatheredColumn::CopyRows(const GatheredColumn& self, std::span<const uint64_t> indices,
                              void* out) {
  const uint8_t* from = self.values_->data();
  auto* to = static_cast<uint8_t*>(out);
  for (size_t i = 0; i < indices.size(); ++i) {
    std::memcpy(to + i * self.row_bytes_, from + indices[i] * self.row_bytes_, self.row_bytes_);
  }
}

template <typename T>
void GatheredColumn::ConvertBytes(const GatheredColumn& self, std::span<const uint64_t> indices,
                                  void* out) {
  // Locals that do not overlap let the compiler make vector code of the inner loop.
  const size_t elements = self.elements_;
  const double scale = self.scale_, offset = self.offset_;
  T* __restrict to = static_cast<T*>(out);
  for (size_t i = 0; i < indices.size(); ++i) {
    const uint8_t* __restrict from = self.values_->data() + indices[i] * self.row_bytes_;
    // Records come in random order: the next one is prefetched while this one is converted.
    if (i + 1 < indices.size())
      Prefetch(self.values_->data() + indices[i + 1] * self.row_bytes_, elements);
    for (size_t e = 0; e < elements; ++e) to[e] = ConvertNumber<T>(from[e], scale, offset);
    to += elements;
  }
}

GatheredColumn::Kernel GatheredColumn::CopyKernel(size_t row_bytes) {
  switch (row_bytes) {
    case 1:
      return CopyFixed<1>;
    case 4:
      return CopyFixed<4>;
    case 8:
      return CopyFixed<8>;
    case 16:
      return CopyFixed<16>;
    case 24:
      return CopyFixed<24>;
    default:
      return CopyRows;
  }
}

GatheredColumn::Kernel GatheredColumn::ByteKernel(DType dtype) {
  Kernel kernel = CopyRows;
  WithType(dtype, [&](auto type) {
    if constexpr (!std::is_same_v<decltype(type), bool>) kernel = ConvertBytes<decltype(type)>;
  });
  return kernel;
}

}  // namespace cohort
