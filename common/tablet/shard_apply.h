#ifndef COHORT_COMMON_TABLET_SHARD_APPLY_H_
#define COHORT_COMMON_TABLET_SHARD_APPLY_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/optimizers/optimizer_rules.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/shard_blocks.h"
#include "common/tensor/buffer.h"

namespace cohort {

// Memory that applies reuse; one per tablet.
struct ApplyScratch {
  std::vector<std::pair<int64_t, const uint8_t*>> rows;  // key and its values
  std::vector<int64_t> keys;
  BufferRef values;
};

// Applies the entries of one push to one shard. They have passed Shard::CheckPush. GRADIENT: one
// update by `rule` at `step`, with gradient / weight. Returns true if a gradient contained a NaN or
// an infinity; such a gradient is applied too.
bool ApplyPush(std::span<const PushEntryView> entries, double weight, uint64_t step,
               const OptimizerRule* rule, ShardBlocks* blocks, ApplyScratch* scratch);

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_SHARD_APPLY_H_
