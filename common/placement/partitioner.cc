#include "common/placement/partitioner.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/base/status.h"
#include "common/tensor/dtype.h"
#include "common/tensor/table_rows.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr int64_t kDefaultMinShardBytes = 256 << 10;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Refuses a key that the class does not have: its `value` must be zero.
absl::Status Refuse(const v1::PartitionerSpec& spec, uint64_t value, std::string_view name) {
  if (value == 0) return absl::OkStatus();
  return InvalidArgument("strategy.partitioner.{}: {} has no such key", name, spec.class_name());
}

// Converts a byte size or count to a signed number. A value beyond its range means "no limit" too.
int64_t Clamp(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, std::numeric_limits<int64_t>::max() / 2));
}

}  // namespace

int64_t VariableRows(const v1::VariableSpec& variable) {
  return variable.dims_size() == 0 ? 1 : variable.dims(0);
}

int64_t RowElements(const v1::VariableSpec& variable) {
  int64_t elements = 1;
  for (int i = 1; i < variable.dims_size(); ++i) elements *= variable.dims(i);
  return elements;
}

uint64_t HeldRows(const v1::VariableSpec& variable, uint64_t rows) {
  return IsTable(variable.dims()) ? 0 : rows;
}

int64_t VariableBytes(const v1::VariableSpec& variable) {
  const auto rows = static_cast<uint64_t>(VariableRows(variable));
  return static_cast<int64_t>(HeldRows(variable, rows)) * RowElements(variable) *
         static_cast<int64_t>(SizeOf(static_cast<DType>(variable.dtype())));
}

std::vector<RowRange> DivideRows(int64_t rows, int64_t shards) {
  std::vector<RowRange> ranges;
  ranges.reserve(static_cast<size_t>(shards));
  int64_t begin = 0;
  for (int64_t i = 0; i < shards; ++i) {
    const int64_t size = rows / shards + (i < rows % shards ? 1 : 0);
    ranges.push_back({begin, size});
    begin += size;
  }
  return ranges;
}

absl::StatusOr<Partitioner> Partitioner::Create(const v1::PartitionerSpec& spec) {
  COHORT_ASSIGN_OR_RETURN(Partitioner partitioner, CreateClass(spec));
  if (!spec.rows().empty() && spec.rows() != "contiguous" && spec.rows() != "hash") {
    return InvalidArgument(
        "strategy.partitioner.rows: '{}' is unknown; there are 'contiguous' and 'hash'",
        spec.rows());
  }
  partitioner.hash_ = spec.rows() == "hash";
  return partitioner;
}

absl::StatusOr<Partitioner> Partitioner::CreateClass(const v1::PartitionerSpec& spec) {
  const std::string& name = spec.class_name();
  if (name.empty()) return Partitioner(Kind::kNone, 0, 1);
  if (name == "FixedShards") {
    COHORT_RETURN_IF_ERROR(Refuse(spec, spec.min_shard_bytes(), "min_shard_bytes"));
    COHORT_RETURN_IF_ERROR(Refuse(spec, spec.max_shard_bytes(), "max_shard_bytes"));
    COHORT_RETURN_IF_ERROR(Refuse(spec, spec.max_shards(), "max_shards"));
    if (spec.num_shards() == 0) {
      return InvalidArgument("strategy.partitioner.num_shards: FixedShards needs a number from 1");
    }
    return Partitioner(Kind::kFixedShards, 0, Clamp(spec.num_shards()));
  }
  COHORT_RETURN_IF_ERROR(Refuse(spec, spec.num_shards(), "num_shards"));
  if (name == "MinSize") {
    COHORT_RETURN_IF_ERROR(Refuse(spec, spec.max_shard_bytes(), "max_shard_bytes"));
    return Partitioner(
        Kind::kMinSize,
        spec.min_shard_bytes() == 0 ? kDefaultMinShardBytes : Clamp(spec.min_shard_bytes()),
        spec.max_shards() == 0 ? 1 : Clamp(spec.max_shards()));
  }
  if (name == "MaxSize") {
    COHORT_RETURN_IF_ERROR(Refuse(spec, spec.min_shard_bytes(), "min_shard_bytes"));
    if (spec.max_shard_bytes() == 0) {
      return InvalidArgument("strategy.partitioner.max_shard_bytes: MaxSize needs a size in bytes");
    }
    return Partitioner(Kind::kMaxSize, Clamp(spec.max_shard_bytes()), Clamp(spec.max_shards()));
  }
  return InvalidArgument(
      "strategy.partitioner.class_name: '{}' is unknown; there are FixedShards, MinSize and "
      "MaxSize",
      name);
}

int64_t Partitioner::NumShards(const v1::VariableSpec& variable) const {
  const int64_t rows = VariableRows(variable);
  if (variable.dims_size() == 0 || rows <= 1 || variable.whole()) return 1;
  switch (kind_) {
    case Kind::kNone:
      return 1;
    case Kind::kFixedShards:
      return std::min(max_shards_, rows);
    case Kind::kMinSize:
      return std::max<int64_t>(
          1, std::min({rows, max_shards_, CeilDiv(VariableBytes(variable), bytes_)}));
    case Kind::kMaxSize: {
      const int64_t row_bytes = std::max<int64_t>(1, VariableBytes(variable) / rows);
      const int64_t rows_per_shard = std::max<int64_t>(1, bytes_ / row_bytes);
      const int64_t shards = CeilDiv(rows, rows_per_shard);
      return max_shards_ == 0 ? shards : std::min(max_shards_, shards);
    }
  }
  return 1;
}

bool Partitioner::HashesRows(const v1::VariableSpec& variable) const {
  return hash_ && variable.row_reads() && !IsTable(variable.dims()) && NumShards(variable) > 1;
}

std::vector<RowRange> Partitioner::Partition(const v1::VariableSpec& variable) const {
  return DivideRows(VariableRows(variable), NumShards(variable));
}

}  // namespace cohort
