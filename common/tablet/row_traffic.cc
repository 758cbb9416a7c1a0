#include "common/tablet/row_traffic.h"

#include "common/row_figures/row_figures.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

// There is one writer.
void Add(uint64_t by, std::atomic<uint64_t>* count) {
  count->store(count->load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

RowTraffic::RowTraffic(std::span<const std::unique_ptr<Shard>> shards)
    : shards_(shards), of_shards_(shards.size()) {}

void RowTraffic::Pulled(size_t shard, std::span<const int64_t> rows) {
  OfShard& of = of_shards_[shard];
  Add(rows.size(), &of.pulled);
  MutexLock lock(&of.mu);
  of.hot.Add(rows);
}

void RowTraffic::Pushed(size_t shard, uint64_t rows) { Add(rows, &of_shards_[shard].pushed); }

void RowTraffic::AddTo(v1::TaskFigures* figures) const {
  for (size_t i = 0; i < shards_.size(); ++i) {
    const Shard& shard = *shards_[i];
    const OfShard& of = of_shards_[i];
    if (!shard.info().row_reads) continue;
    v1::RowFigures part;
    part.set_variable(shard.info().variable);
    part.set_bytes(shard.bytes());
    const TableCounts* const table = shard.table_counts();
    part.set_rows(table == nullptr ? static_cast<uint64_t>(shard.info().rows)
                                   : table->rows.load(std::memory_order_relaxed));
    if (table != nullptr) {
      part.set_made(table->made.load(std::memory_order_relaxed));
      part.set_evicted(table->evicted.load(std::memory_order_relaxed));
      part.set_not_admitted(table->not_admitted.load(std::memory_order_relaxed));
    }
    part.set_pulled(of.pulled.load(std::memory_order_relaxed));
    part.set_pushed(of.pushed.load(std::memory_order_relaxed));
    {
      MutexLock lock(&of.mu);
      for (const auto& [row, pulls] : of.hot.Top(kHotKeys)) {
        v1::HotKey* const hot = part.add_hot();
        hot->set_key(shard.info().KeyOf(row));
        hot->set_pulls(pulls);
      }
    }
    AddRowFigures(part, figures);
  }
}

}  // namespace cohort
