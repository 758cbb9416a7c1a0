#ifndef COHORT_COMMON_TABLET_SHARD_H_
#define COHORT_COMMON_TABLET_SHARD_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/optimizers/optimizers.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/shard_apply.h"
#include "common/tablet/shard_blocks.h"
#include "common/tablet/table_rows.h"
#include "common/tensor/buffer.h"

namespace cohort {

namespace v1 {
class InitializerSpec;
class PullResult;
class Layout;
class ShardSpec;
}  // namespace v1

// The state of a shard at one moment: references, no copy.
struct ShardSnapshot {
  std::shared_ptr<const ShardInfo> info;
  std::vector<ShardBlock> blocks;
  // A table: the rows that are not admitted yet, and the clock of the snapshot.
  std::optional<TableRules> rules;
  TableRows::AllCounts counts;
  uint64_t clock = 0;
  // The checkpoint is an increment: of this shard it has only these rows. Null: all rows.
  std::shared_ptr<const RowChanges> changes;
  std::shared_ptr<const RowView> on_disk;  // rows of a table that are not in blocks; may be null
  std::optional<size_t> average;           // the slot whose values count instead of the values
};

// A contiguous range of a variable's rows with its optimizer slots: all of them, or those of a
// table without bounds that exist. Not thread-safe: it belongs to a tablet.
class Shard {
 public:
  // Allocates; the contents are set by Initialize or Fill. `rules` and `pool` outlive the shard.
  // Errors: InvalidArgument if the layout contradicts itself.
  static absl::StatusOr<std::unique_ptr<Shard>> Create(const v1::Layout& layout,
                                                       const v1::ShardSpec& spec,
                                                       const LayoutRules& rules, BufferPool* pool,
                                                       const ShardOptions& options = {});

  // Takes the first values from the initializer, and those of slots from the rule.
  absl::Status Initialize(const v1::InitializerSpec& initializer);
  absl::Status Fill(ShardBlocks::Filler fill) { return blocks_.Fill(fill); }
  // See ShardBlocks::Overwrite.
  absl::Status Overwrite(ShardBlocks::Filler fill) { return blocks_.Overwrite(fill); }

  // Sets the values or one slot of some rows, before the shard is used. Errors: DataLoss if it has
  // no such rows, or they have other sizes.
  absl::Status FillRows(int slot, int64_t row_begin, int64_t rows, std::span<const uint8_t> bytes);

  // Sets the clock of TableRules.
  void SetClock(uint64_t clock) { clock_ = clock; }
  // A table: adds rows that do not exist, with their values and slots; see TableRows::Add. Values
  // alone: slots begin as those of a row that an update makes. Errors: InvalidArgument for a row
  // outside of the shard.
  absl::Status AddRows(std::span<const int64_t> rows,
                       std::span<const std::span<const uint8_t>> tensors);
  // A table: adds counts of rows that are not admitted; see TableRows::AddCounts. Errors: those of
  // AddRows.
  absl::Status AddCounts(std::span<const int64_t> rows,
                         std::span<const std::span<const uint8_t>> tensors);

  // The disk of a table has failed, and rows may be missing.
  absl::Status status() const { return table_.has_value() ? table_->status() : absl::OkStatus(); }

  // Checks that all entries of one push for this shard fit together: sizes, keys, one kind, a dense
  // gradient complete and in order. Errors: InvalidArgument that names the shard and the reason.
  absl::Status CheckPush(std::span<const PushEntryView> entries) const;
  // Takes the rows of entries that have passed CheckPush into memory, for the Apply of the same
  // entries that follows. Errors: those of RowTier; nothing has changed.
  absl::Status TakeIn(std::span<const PushEntryView> entries);
  // Applies entries that have passed CheckPush; see ApplyPush.
  bool Apply(std::span<const PushEntryView> entries, double weight, uint64_t step,
             ApplyScratch* scratch);

  // Checks the keys of a pull. Errors: as for CheckPush.
  absl::Status CheckPull(const PullEntryView& entry) const;
  // Bytes of the values that an entry that has passed CheckPull asks for; at most 2^63.
  uint64_t PulledBytes(const PullEntryView& entry) const;
  // Appends the entries of the answer and one payload slice for each, none over about a megabyte.
  // Dense: references to the blocks. Rows: copied to pooled buffers in the order of the keys.
  // Errors: those of RowTier.
  absl::Status Pull(const PullEntryView& entry, v1::PullResult* result,
                    std::vector<PayloadSlice>* payload) const;

  // The memory of values and slots, and of what a table needs beside them.
  uint64_t bytes() const {
    if (table_.has_value()) return table_->bytes();
    return static_cast<uint64_t>(blocks_.rows()) * info_->held_row_bytes();
  }
  // Null if it is no table. Thread-safe.
  const TableCounts* table_counts() const {
    return table_.has_value() ? &table_->figures() : nullptr;
  }
  // With `request`: for a checkpoint, which may be an increment.
  ShardSnapshot Snapshot(const SnapshotRequest* request = nullptr);
  // The memory that these entries, which have passed CheckPush, would take because a snapshot
  // shares what they change. No entries: a sum of all rows.
  uint64_t BytesToCopy(std::span<const PushEntryView> entries) const;
  // See ShardBlocks.
  uint64_t superseded_bytes() const { return blocks_.superseded_bytes(); }
  void Reclaim() { blocks_.Reclaim(); }
  const ShardInfo& info() const { return *info_; }
  // Null if the variable is not trainable.
  const OptimizerRule* rule() const { return rule_; }
  // The number of buffers that applies have copied because they were shared. Thread-safe.
  uint64_t copied_blocks() const { return blocks_.copied(); }

 private:
  Shard(std::shared_ptr<const ShardInfo> info, const OptimizerRule* rule, BufferPool* pool,
        const ShardOptions& options)
      : info_(std::move(info)),
        rule_(rule),
        average_(SlotOfAverage(info_->slots)),
        blocks_(info_, pool, options) {}

  absl::Status CheckSizes(const PushEntryView& entry) const;
  absl::Status CheckKeys(std::span<const uint8_t> keys) const;
  // What an entry reads of a block.
  const BufferRef& Pulled(const PullEntryView& entry, const ShardBlock& block) const;
  void PullDense(const PullEntryView& entry, v1::PullResult* result,
                 std::vector<PayloadSlice>* payload) const;
  absl::Status PullRows(const PullEntryView& entry, v1::PullResult* result,
                        std::vector<PayloadSlice>* payload) const;
  absl::Status GatherFromTable(const PullEntryView& entry, std::span<const int64_t> keys,
                               uint8_t* out) const;
  absl::Status CheckRows(std::span<const int64_t> rows) const;
  std::vector<uint8_t> FirstSlot(size_t slot, size_t rows, std::span<const uint8_t> values) const;

  const std::shared_ptr<const ShardInfo> info_;
  const OptimizerRule* const rule_;  // null if the variable is not trainable
  const std::optional<size_t> average_;
  ShardBlocks blocks_;
  uint64_t clock_ = 0;
  std::vector<int64_t> places_;     // the places of the rows that TakeIn had
  std::optional<TableRows> table_;  // nothing: all rows exist, each at the place of its number
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SHARD_H_
