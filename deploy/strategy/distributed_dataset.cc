#include "deploy/strategy/distributed_dataset.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

struct Range {
  uint64_t begin = 0, end = 0;
};

// Cuts a range into `parts` that differ by one at most. Empty ones are left out.
std::vector<Range> SplitEvenly(Range range, int parts) {
  const uint64_t size = range.end - range.begin;
  const auto n = static_cast<uint64_t>(parts);
  std::vector<Range> out;
  for (uint64_t i = 0, begin = range.begin; i < n; ++i) {
    const uint64_t end = begin + size / n + (i < size % n ? 1 : 0);
    if (end > begin) out.push_back({begin, end});
    begin = end;
  }
  return out;
}

// Rows of a tensor, without a copy.
Tensor Rows(const Tensor& tensor, Range rows) {
  Dims dims = tensor.dims();
  const size_t row_bytes = tensor.num_bytes() / static_cast<size_t>(dims[0]);
  dims[0] = static_cast<int64_t>(rows.end - rows.begin);
  return Tensor(tensor.dtype(), std::move(dims), tensor.buffer(),
                tensor.byte_offset() + rows.begin * row_bytes);
}

DistributedBatch RowsBatch(const std::vector<Tensor>& columns, Range range, int replicas) {
  DistributedBatch batch;
  for (const Range& share : SplitEvenly(range, replicas)) {
    ReplicaShare& added = batch.shares.emplace_back();
    for (const Tensor& column : columns) added.columns.push_back(Rows(column, share));
  }
  return batch;
}

}  // namespace

uint64_t ReplicaShare::examples() const {
  return columns.empty() ? lease.end - lease.begin : static_cast<uint64_t>(columns[0].dims()[0]);
}

uint64_t DistributedBatch::examples() const {
  uint64_t sum = 0;
  for (const ReplicaShare& share : shares) sum += share.examples();
  return sum;
}

absl::StatusOr<DistributedBatch> SplitBatch(const std::vector<Tensor>& columns, int replicas) {
  if (columns.empty()) return InvalidArgument("a batch needs at least one column");
  const auto rows_of = [](const Tensor& t) { return t.dims().empty() ? 0 : t.dims()[0]; };
  const int64_t rows = rows_of(columns[0]);
  for (size_t i = 0; i < columns.size(); ++i) {
    if (rows > 0 && rows_of(columns[i]) == rows) continue;
    return InvalidArgument(
        "column {} of the batch is {}: every column needs the same number of rows, at least 1", i,
        DimsToString(columns[i].dims()));
  }
  return RowsBatch(columns, {0, static_cast<uint64_t>(rows)}, replicas);
}

DistributedDataset::DistributedDataset(PerWorkerDataset dataset, uint64_t records,
                                       uint64_t global_batch, int replicas)
    : dataset_(dataset), records_(records), global_batch_(global_batch), replicas_(replicas) {}

DistributedDataset::DistributedDataset(std::vector<Tensor> columns, uint64_t records,
                                       uint64_t global_batch, int replicas)
    : columns_(std::move(columns)),
      records_(records),
      global_batch_(global_batch),
      replicas_(replicas) {}

DistributedBatch DistributedDataset::Batch(uint64_t epoch, uint64_t index) const {
  const uint64_t begin = index * global_batch_;
  const Range range{begin, std::min(records_, begin + global_batch_)};
  if (!columns_.empty()) return RowsBatch(columns_, range, replicas_);
  DistributedBatch batch{.dataset = dataset_};
  for (const Range& share : SplitEvenly(range, replicas_)) {
    batch.shares.push_back({.lease = {epoch, share.begin, share.end}});
  }
  return batch;
}

}  // namespace cohort
