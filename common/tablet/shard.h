#ifndef COHORT_COMMON_TABLET_SHARD_H_
#define COHORT_COMMON_TABLET_SHARD_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/optimizers/optimizer_rules.h"
#include "common/tablet/push_pull_views.h"
#include "common/tensor/buffer.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"

namespace cohort {

namespace v1 {
class InitializerSpec;
class PullResult;
class Layout;
class ShardSpec;
}  // namespace v1

class ApplyPool;

// What a shard is; constant.
struct ShardInfo {
  uint32_t shard = 0;  // its number in the job
  std::string variable;
  DType dtype = DType::kInvalid;
  Dims dims;              // of the whole variable
  int64_t row_begin = 0;  // of the variable's rows
  int64_t rows = 0;
  int64_t row_elements = 0;
  bool trainable = false;
  std::vector<SlotInfo> slots;  // none where it is not trainable

  size_t row_bytes() const { return static_cast<size_t>(row_elements) * SizeOf(dtype); }
  int64_t elements() const { return rows * row_elements; }
};

// Some rows of a shard and what lies beside them. Buffers that anyone else holds too (a response on
// its way, a snapshot) are immutable; an apply that finds one shared writes to a fresh one.
struct ShardBlock {
  int64_t row_begin = 0;  // within the shard
  int64_t rows = 0;
  BufferRef values;
  BufferRef slots[kMaxSlots];
};

// The state of a shard at one moment: references, no copy.
struct ShardSnapshot {
  std::shared_ptr<const ShardInfo> info;
  std::vector<ShardBlock> blocks;
};

// Memory that applies use again and again; one per tablet.
struct ApplyScratch {
  std::vector<std::pair<int64_t, const uint8_t*>> rows;  // key and its values
  std::vector<int64_t> keys;
  BufferRef values;
};

// How a shard works; what is named outlives it.
struct ShardOptions {
  static constexpr size_t kBlockBytes = size_t{1} << 20;
  // Below it, waking another core (some 50 us) costs more than it brings.
  static constexpr size_t kSplitBytes = size_t{4} << 20;

  size_t block_bytes = kBlockBytes;
  ApplyPool* helpers = nullptr;      // for large applies; null: the caller does them alone
  size_t split_bytes = kSplitBytes;  // of weights that an update goes over, to be large
};

// A contiguous range of a variable's rows with its optimizer slots, in blocks of about a megabyte.
// Not thread-safe: it belongs to a tablet. The caller of the apply functions has Checked the
// entries.
class Shard {
 public:
  // Allocates; the contents are set by Initialize or Fill. `rule` and `pool` outlive the shard.
  // Errors: InvalidArgument where the layout contradicts itself.
  static absl::StatusOr<std::unique_ptr<Shard>> Create(const v1::Layout& layout,
                                                       const v1::ShardSpec& spec,
                                                       const OptimizerRule* rule, BufferPool* pool,
                                                       const ShardOptions& options = {});

  // First values from the initializer, slots from the rule.
  absl::Status Initialize(const v1::InitializerSpec& initializer);
  // Sets everything by `fill`(slot (-1: the values), first row within the shard, rows, bytes to
  // set).
  using Filler = absl::FunctionRef<absl::Status(int, int64_t, int64_t, std::span<uint8_t>)>;
  absl::Status Fill(Filler fill);

  // Whether all entries of one push for this shard make sense together: sizes, keys, one kind, a
  // dense gradient whole and in order. Errors: InvalidArgument that names the shard and what is
  // wrong.
  absl::Status CheckPush(std::span<const PushEntryView> entries) const;
  // Applies them. GRADIENT: one update by the optimizer's rule, of the gradient / weight at `step`.
  // Returns whether a gradient had a NaN or an infinity in it (it is applied all the same).
  bool Apply(std::span<const PushEntryView> entries, double weight, uint64_t step,
             ApplyScratch* scratch);

  absl::Status CheckPull(const PullEntryView& entry) const;
  // Of the values that an entry that passed CheckPull asks for; at most 2^63.
  uint64_t PulledBytes(const PullEntryView& entry) const;
  // Appends the entries of the answer and one payload slice for each, none over about a megabyte.
  // Dense: references to the blocks. Rows: copied to pooled buffers in the order of the keys.
  void Pull(const PullEntryView& entry, v1::PullResult* result,
            std::vector<PayloadSlice>* payload) const;

  ShardSnapshot Snapshot() const { return {info_, blocks_}; }
  const ShardInfo& info() const { return *info_; }
  // Blocks that an apply had to write anew because they were shared.
  uint64_t copied_blocks() const { return copied_blocks_.load(std::memory_order_relaxed); }

 private:
  Shard(ShardInfo info, const OptimizerRule* rule, BufferPool* pool, const ShardOptions& options)
      : info_(std::make_shared<const ShardInfo>(std::move(info))),
        rule_(rule),
        pool_(pool),
        options_(options) {}

  absl::Status CheckSizes(const PushEntryView& entry) const;
  absl::Status CheckKeys(std::span<const uint8_t> keys) const;
  // Where an update of the block reads and writes; shared buffers are written anew, into `fresh`.
  UpdateTarget TargetOf(const ShardBlock& block, ShardBlock* fresh);
  // The end of the update: fresh buffers take the place of those that were shared.
  void Adopt(ShardBlock* block, ShardBlock* fresh);
  // Makes the block's values writable in place, by a copy where they are shared.
  uint8_t* MakeWritable(ShardBlock* block);

  // Calls `apply` for each block; over several cores where the work is large. What a block becomes
  // depends on nothing else, so that the bits are the same however it is split.
  void ForEachBlock(size_t work_bytes, absl::FunctionRef<void(ShardBlock*)> apply);
  // Both return whether the gradient had a NaN or an infinity in it.
  bool ApplyDense(std::span<const PushEntryView> parts, double weight, uint64_t step);
  bool ApplyDenseBlock(ShardBlock* block, std::span<const PushEntryView> parts, double weight,
                       uint64_t step);
  void ApplySparse(std::span<const PushEntryView> parts, double weight, uint64_t step,
                   ApplyScratch* scratch);
  void ApplyRows(std::span<const int64_t> keys, const uint8_t* values, double weight,
                 uint64_t step);
  // ASSIGN_ADD and EMA.
  void ApplyDirect(const PushEntryView& entry);
  void UpdateElements(const PushEntryView& entry, int64_t begin, int64_t end,
                      const uint8_t* values);
  void PullDense(v1::PullResult* result, std::vector<PayloadSlice>* payload) const;
  void PullRows(const PullEntryView& entry, v1::PullResult* result,
                std::vector<PayloadSlice>* payload) const;

  const std::shared_ptr<const ShardInfo> info_;
  const OptimizerRule* const rule_;  // null where the variable is not trainable
  BufferPool* const pool_;
  const ShardOptions options_;
  int64_t block_rows_ = 1;  // of every block but the last
  std::vector<ShardBlock> blocks_;
  std::atomic<uint64_t> copied_blocks_{0};
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SHARD_H_
