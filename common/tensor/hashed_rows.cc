#include "common/tensor/hashed_rows.h"

#include <cstring>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr size_t kBytesAtOnce = size_t{4} << 20;

// The rows of one read, if `rows_of_unit` rows are read together: at least one unit.
int64_t UnitsAtOnce(size_t row_bytes, int64_t rows_of_unit) {
  const size_t unit = std::max<size_t>(row_bytes, 1) * static_cast<size_t>(rows_of_unit);
  return static_cast<int64_t>(std::max<size_t>(kBytesAtOnce / unit, 1));
}

}  // namespace

absl::Status ReadHashedShard(
    const HashedRows& hashed, HashedRows::Place first, size_t row_bytes, std::span<uint8_t> out,
    absl::FunctionRef<absl::Status(int64_t, int64_t, std::span<uint8_t>)> read) {
  const int64_t end = first.row + static_cast<int64_t>(out.size() / std::max<size_t>(row_bytes, 1));
  const int64_t at_once = UnitsAtOnce(row_bytes, hashed.shards());
  std::vector<uint8_t> groups;
  for (int64_t row = first.row; row < end; row += at_once) {
    const int64_t stop = std::min(row + at_once, end);
    const int64_t from = row * hashed.shards();
    const int64_t rows = std::min(stop * hashed.shards(), hashed.rows()) - from;
    groups.resize(static_cast<size_t>(rows) * row_bytes);
    COHORT_RETURN_IF_ERROR(read(from, rows, groups));
    for (int64_t r = row; r < stop; ++r) {
      const int64_t at = hashed.RowAt({first.shard, r}) - from;
      std::memcpy(out.data() + static_cast<size_t>(r - first.row) * row_bytes,
                  groups.data() + static_cast<size_t>(at) * row_bytes, row_bytes);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadFromHashedShards(
    const HashedRows& hashed, int64_t begin, size_t row_bytes, std::span<uint8_t> out,
    absl::FunctionRef<absl::Status(int64_t, int64_t, std::span<uint8_t>)> read) {
  const int64_t end = begin + static_cast<int64_t>(out.size() / std::max<size_t>(row_bytes, 1));
  const int64_t last_group = (end + hashed.shards() - 1) / hashed.shards();
  const int64_t at_once = UnitsAtOnce(row_bytes, 1);
  std::vector<uint8_t> part;
  for (int64_t shard = 0; shard < hashed.shards(); ++shard) {
    const int64_t stop_row = std::min(last_group, hashed.RowsOf(shard));
    for (int64_t row = begin / hashed.shards(); row < stop_row; row += at_once) {
      const int64_t rows = std::min(at_once, stop_row - row);
      part.resize(static_cast<size_t>(rows) * row_bytes);
      COHORT_RETURN_IF_ERROR(read(hashed.BeginOf(shard) + row, rows, part));
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t at = hashed.RowAt({shard, row + i});
        if (at < begin || at >= end) continue;
        std::memcpy(out.data() + static_cast<size_t>(at - begin) * row_bytes,
                    part.data() + static_cast<size_t>(i) * row_bytes, row_bytes);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace cohort
