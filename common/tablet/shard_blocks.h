#ifndef COHORT_COMMON_TABLET_SHARD_BLOCKS_H_
#define COHORT_COMMON_TABLET_SHARD_BLOCKS_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/optimizers/optimizer_rules.h"
#include "common/tablet/changed_rows.h"
#include "common/tablet/value_runs.h"
#include "common/tensor/buffer.h"
#include "common/tensor/dtype.h"
#include "common/tensor/hashed_rows.h"
#include "common/tensor/table_rows.h"
#include "common/tensor/tensor.h"

namespace cohort {

class RowDisk;
class ThreadPool;

// What a shard is; constant.
struct ShardInfo {
  uint32_t shard = 0;  // its number in the job
  std::string variable;
  DType dtype = DType::kInvalid;
  Dims dims;              // dims of the whole variable
  int64_t row_begin = 0;  // its first row of the variable
  int64_t rows = 0;
  int64_t row_elements = 0;
  bool trainable = false;
  bool row_reads = false;       // an embedding: steps read and update some rows of it
  std::vector<SlotInfo> slots;  // none if the variable is not trainable
  // The variable's rows are shared by hash. Then row_begin is the number of rows that the shards
  // before this one have, and `part` that of these shards.
  std::optional<HashedRows> hashed;
  int64_t part = 0;

  // The rows of a table without bounds exist one by one (TableRows).
  bool is_table() const { return IsTable(dims); }
  size_t row_bytes() const { return static_cast<size_t>(row_elements) * SizeOf(dtype); }
  // Those of a slot: in memory, and in checkpoints.
  size_t slot_row_bytes(size_t slot) const { return slots[slot].row_bytes(dtype, row_elements); }
  size_t stored_row_bytes(size_t slot) const {
    return slots[slot].stored_row_bytes(dtype, row_elements);
  }
  // A row with its slots.
  size_t held_row_bytes() const {
    size_t bytes = row_bytes();
    for (size_t s = 0; s < slots.size(); ++s) bytes += slot_row_bytes(s);
    return bytes;
  }
  // The row of the variable that is a row of the shard, and its key as the user knows it.
  int64_t RowOf(int64_t row) const {
    return hashed.has_value() ? hashed->RowAt({part, row}) : row_begin + row;
  }
  int64_t KeyOf(int64_t row) const { return is_table() ? KeyOfRow(RowOf(row)) : RowOf(row); }
  // 0 for a table.
  int64_t elements() const { return is_table() ? 0 : rows * row_elements; }
};

// Copies rows of a slot from the form that checkpoints have to that of memory, or back.
void TakeStored(const SlotInfo& slot, DType dtype, std::span<const uint8_t> stored, uint8_t* to);
void GiveStored(const SlotInfo& slot, DType dtype, const uint8_t* from, std::span<uint8_t> stored);

// How a shard works. The pointers outlive the shard.
struct ShardOptions {
  static constexpr size_t kBlockBytes = size_t{1} << 20;
  // Blocks of embeddings are this many times as large, so that each fills a huge page.
  static constexpr size_t kRowReadsFactor = 2;
  // For less work, waking another core (some 50 us) costs more than it saves.
  static constexpr size_t kSplitBytes = size_t{4} << 20;
  // For fewer bytes of values, copying them for a reader costs less than lending them.
  static constexpr size_t kRunBytes = size_t{1} << 20;

  size_t block_bytes = kBlockBytes;
  ThreadPool* helpers = nullptr;      // for large applies; null: the caller does them alone
  size_t split_bytes = kSplitBytes;   // an update of at least this many bytes of weights is large
  size_t run_bytes = kRunBytes;       // at least this many bytes of values lie in one run
  ValueRuns::Allocator allocate_run;  // may be null: the heap
  RowDisk* disk = nullptr;  // for rows of tables beyond its limit; null: they lie in memory alone
};

// Some rows of a shard with their slots. A shared buffer (a response that is being sent or a
// snapshot holds it too) is immutable: an apply writes to a fresh buffer instead.
struct ShardBlock {
  int64_t row_begin = 0;  // within the shard
  int64_t rows = 0;
  BufferRef values;
  BufferRef slots[kMaxSlots];
  BufferRef names;   // a table: int64, the row of the shard at each place; -1: none
  BufferRef clocks;  // a table: uint64, when each row was updated; none before SetClockAt
};

// The memory of one shard: its values and slots, in blocks of about a megabyte, copied on write.
// The values of a large shard lie in one run of memory: those of block i are followed by those of
// block i + 1. An update of some blocks that are shared breaks the run; an update of all blocks, or
// Reclaim, restores it. An embedding has no run: nobody reads all of its values at once. Only
// copied() is thread-safe.
class ShardBlocks {
 public:
  // Allocates; the contents are set by Fill. `pool` outlives the blocks.
  ShardBlocks(std::shared_ptr<const ShardInfo> info, BufferPool* pool, const ShardOptions& options);

  // A table: adds a block of places, none of which has a row.
  void AddBlock();
  // A table: removes the last block, which has no row any more.
  void DropLastBlock();
  int64_t block_rows() const { return int64_t{1} << block_shift_; }
  // A table: the row of the shard at a place, -1: none, and when it was updated.
  int64_t RowAt(int64_t place) const { return At(BlockOf(place).names, place); }
  void SetRowAt(int64_t place, int64_t row);
  uint64_t ClockAt(int64_t place) const {
    return static_cast<uint64_t>(At(BlockOf(place).clocks, place));
  }
  void SetClockAt(int64_t place, uint64_t clock);
  // Rows, or places, in all blocks. Thread-safe.
  int64_t rows() const { return rows_.load(std::memory_order_relaxed); }

  // Sets everything by `fill`(slot (-1: the values), first row within the shard, rows, bytes to
  // set, in the form that checkpoints have). Errors: those of `fill`.
  using Filler = absl::FunctionRef<absl::Status(int, int64_t, int64_t, std::span<uint8_t>)>;
  absl::Status Fill(Filler fill);
  // The same for blocks that are in use: shared buffers stay as they are, and fresh ones take their
  // place.
  absl::Status Overwrite(Filler fill);

  const ShardInfo& info() const { return *info_; }
  BufferPool* pool() const { return pool_; }
  const std::vector<ShardBlock>& all() const { return blocks_; }
  // References to all blocks, for a snapshot.
  std::vector<ShardBlock> Snapshot();
  // What has changed since the base of this snapshot; null: this is not known, or the variable is
  // one whose checkpoints always have all rows. `clock`: see TableRules.
  std::shared_ptr<const RowChanges> TakeChanges(const SnapshotRequest& request, uint64_t clock);
  // The block with this row of the shard.
  const ShardBlock& BlockOf(int64_t row) const {
    return blocks_[static_cast<size_t>(row >> block_shift_)];
  }
  ShardBlock* MutableBlockOf(int64_t row) {
    return &blocks_[static_cast<size_t>(row >> block_shift_)];
  }
  // Asks the processor for the memory of a row and its slots, which is updated soon.
  void Prefetch(int64_t row) const;

  // To be called before an update of all blocks: if values are shared, or not in one run, TargetOf
  // gives each block its place in another run.
  void BeginWhole();
  // Calls `apply` for each block, on several cores if there is much work. The result of a block
  // depends on nothing else, so the bits are the same for every split of the work.
  void ForEach(size_t work_bytes, absl::FunctionRef<void(ShardBlock*)> apply);
  // Calls `apply`(begin, end) for parts of `items` items, on several cores if they have much work.
  void ForEachPart(size_t items, size_t item_bytes, absl::FunctionRef<void(size_t, size_t)> apply);
  // The addresses that an update of the block reads and writes. It writes to `fresh` instead of
  // shared buffers.
  UpdateTarget TargetOf(const ShardBlock& block, ShardBlock* fresh);
  // Ends that update: fresh buffers take the place of shared ones.
  void Replace(ShardBlock* block, ShardBlock* fresh);
  // Makes the values of some rows of a block writable in place, by a copy if they are shared.
  // `first`: a row of the shard. Returns the address of the block's values.
  uint8_t* MakeWritable(ShardBlock* block, int64_t first, int64_t rows);
  // The same for values and slots of these rows. Returns the addresses of the block.
  UpdateTarget TargetInPlace(ShardBlock* block, std::span<const int64_t> rows);

  // The memory that an update would take because a snapshot shares buffers: one of all blocks, or
  // (`keys`: rows of the shard) one of the blocks of these rows. A run that was taken since the
  // last snapshot does not count: only readers share it.
  uint64_t BytesToCopy() const;
  uint64_t BytesToCopy(std::span<const int64_t> keys) const;
  // Bytes of older versions, in runs, that answers, pins and snapshots still reference.
  uint64_t superseded_bytes() const { return runs_.has_value() ? runs_->superseded_bytes() : 0; }
  // Releases the memory that only a snapshot needed, which has ended: blocks that had to leave
  // their run return to it, and spare runs are freed.
  void Reclaim();

  // True if all values lie in one run of memory.
  bool in_one_run() const;
  // The number of buffers that were copied because they were shared. Thread-safe.
  uint64_t copied() const { return copied_.load(std::memory_order_relaxed); }

 private:
  void AllocateSlots(ShardBlock* block) const;
  absl::Status FillSlot(Filler fill, const ShardBlock& block, size_t slot, uint8_t* to);
  // An update is about to change these rows of a block, or all of them. Each function that makes
  // memory writable calls one, so that no increment lacks a change.
  void NoteChange(const ShardBlock& block, int64_t first, int64_t rows) {
    if (!changed_.active()) return;
    changed_.Note(static_cast<size_t>(&block - blocks_.data()), block.rows, first - block.row_begin,
                  rows);
  }
  void NoteChange(const ShardBlock& block) { NoteChange(block, block.row_begin, block.rows); }
  uint8_t* WritableValues(ShardBlock* block);
  // Values take the place of shared ones.
  void TakeValues(ShardBlock* block, BufferRef values);
  BufferRef CopyOf(const BufferRef& buffer);
  // A number of each place of a block.
  int64_t At(const BufferRef& numbers, int64_t place) const {
    return reinterpret_cast<const int64_t*>(
        numbers->data())[place & ((int64_t{1} << block_shift_) - 1)];
  }
  void SetAt(BufferRef* numbers, int64_t place, int64_t value);
  bool SharesValues(const ShardBlock& block) const;
  uint64_t SharedBytes(const ShardBlock& block) const;
  size_t values_bytes() const { return static_cast<size_t>(rows()) * info_->row_bytes(); }
  void PlaceInNextRun(std::vector<BufferRef>* parts);

  const std::shared_ptr<const ShardInfo> info_;
  BufferPool* const pool_;
  const ShardOptions options_;
  const int block_shift_;  // every block except the last one has 2^block_shift_ rows
  // ShardInfo::row_bytes and slot_row_bytes, which Prefetch needs for each row.
  const size_t row_bytes_;
  size_t slot_bytes_[kMaxSlots] = {};
  std::vector<ShardBlock> blocks_;
  std::atomic<int64_t> rows_{0};
  std::optional<ValueRuns> runs_;  // nothing: the shard is small
  bool run_in_snapshot_ = false;   // a snapshot may share the run of the newest version
  std::vector<BufferRef> next_;    // by block: its values in the run of the update that has begun
  // By block of a shard with runs: its place in the run, if its values had to leave it.
  std::vector<BufferRef> places_;
  ChangedRows changed_;
  std::atomic<uint64_t> copied_{0};
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SHARD_BLOCKS_H_
