#include "common/data/memory_source.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"
#include "common/data/convert.h"

namespace cohort {
namespace {

// Prefetches the bytes of a row, at most kPrefetchBytes: the rest is fetched while it is read.
void Prefetch(const uint8_t* row, size_t bytes) {
  constexpr size_t kLine = 64, kPrefetchBytes = 4096;
  for (size_t b = 0; b < std::min(bytes, kPrefetchBytes); b += kLine) __builtin_prefetch(row + b);
}

// Copies rows of kBytes bytes; 0: of `bytes`.
template <size_t kBytes>
void CopyRowsOf(const uint8_t* rows, size_t bytes, std::span<const uint64_t> records,
                std::byte* out) {
  const size_t size = kBytes > 0 ? kBytes : bytes;
  for (size_t i = 0; i < records.size(); ++i) {
    std::memcpy(out + i * size, rows + records[i] * size, size);
  }
}

void CopyRows(const uint8_t* rows, size_t bytes, std::span<const uint64_t> records,
              std::byte* out) {
  switch (bytes) {
    case 1:
      return CopyRowsOf<1>(rows, bytes, records, out);
    case 4:
      return CopyRowsOf<4>(rows, bytes, records, out);
    case 8:
      return CopyRowsOf<8>(rows, bytes, records, out);
    case 16:
      return CopyRowsOf<16>(rows, bytes, records, out);
    case 24:
      return CopyRowsOf<24>(rows, bytes, records, out);
    default:
      return CopyRowsOf<0>(rows, bytes, records, out);
  }
}

}  // namespace

size_t MemorySource::Add(const Column& column) {
  columns_.push_back({column.name, column.dtype, column.dims});
  values_.push_back({column.stored, column.values, column.scale, column.offset});
  const bool plain = column.stored == column.dtype && column.scale == 1 && column.offset == 0;
  if (!plain && column.stored != DType::kUint8) {
    const size_t numbers = column.values->size() / SizeOf(column.stored);
    TableVector<uint8_t> converted(numbers * SizeOf(column.dtype));
    ConvertNumbers(column.stored, column.values->data(), column.dtype, converted.data(), numbers,
                   column.scale, column.offset);
    values_.back() = {column.dtype,
                      std::make_shared<const TableVector<uint8_t>>(std::move(converted))};
  }
  return columns_.size() - 1;
}

absl::Status MemorySource::ReadBatch(std::span<const uint64_t> records, bool training,
                                     std::span<const std::span<std::byte>> values) const {
  const size_t other = columns_.size() - values_.size();
  const auto is_needed = [](std::span<std::byte> column) { return !column.empty(); };
  if (std::any_of(values.begin(), values.begin() + static_cast<ptrdiff_t>(other), is_needed)) {
    COHORT_RETURN_IF_ERROR(beside_->ReadBatch(records, training, values.first(other)));
  }
  if (values_.empty()) return absl::OkStatus();
  std::vector<uint64_t> shifted;
  if (first_ > 0) {
    shifted.assign(records.begin(), records.end());
    for (uint64_t& record : shifted) record -= first_;
    records = shifted;
  }
  for (size_t c = other; c < columns_.size(); ++c) {
    if (values[c].empty()) continue;
    const auto& [stored, bytes, scale, offset] = values_[c - other];
    const DType dtype = columns_[c].dtype;
    const size_t row_bytes = values[c].size() / records.size();
    if (stored == dtype && scale == 1 && offset == 0) {
      CopyRows(bytes->data(), row_bytes, records, values[c].data());
      continue;
    }
    const size_t elements = row_bytes / SizeOf(dtype), stored_bytes = elements * SizeOf(stored);
    const Converter convert = ConverterOf(stored, dtype);
    const uint8_t* const rows = bytes->data();
    for (size_t i = 0; i < records.size(); ++i) {
      // Records come in random order: the next one is prefetched while this one is converted.
      if (i + 1 < records.size()) Prefetch(rows + records[i + 1] * stored_bytes, stored_bytes);
      convert(rows + records[i] * stored_bytes, values[c].data() + i * row_bytes, elements, scale,
              offset);
    }
  }
  return absl::OkStatus();
}

}  // namespace cohort
