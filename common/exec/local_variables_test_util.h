#ifndef COHORT_COMMON_EXEC_LOCAL_VARIABLES_TEST_UTIL_H_
#define COHORT_COMMON_EXEC_LOCAL_VARIABLES_TEST_UTIL_H_

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/local_variables.h"
#include "common/tensor/tensor.h"
#include "proto/checkpoint.pb.h"

// For tests alone.
namespace cohort::testing {

// Sets a variable. Its slots stay as they are.
inline void SetVariable(const LocalVariables& variables, const std::string& name,
                        const Tensor& value) {
  variables.tablet()
      ->Fill([&](const ShardInfo& shard, int slot, int64_t row, int64_t, std::span<uint8_t> out) {
        if (shard.variable == name && slot < 0) {
          const auto* const from = static_cast<const uint8_t*>(value.raw());
          std::memcpy(out.data(), from + static_cast<size_t>(row) * shard.row_bytes(), out.size());
        }
        return absl::OkStatus();
      })
      .IgnoreError();
}

// The value of a variable and its slots. Empty: there is no such variable.
inline std::vector<Tensor> TensorsOf(const LocalVariables& variables, const std::string& name) {
  std::vector<Tensor> tensors;
  const TabletSnapshot snapshot = *variables.tablet()->Snapshot(/*watermark=*/0);
  for (const ShardSnapshot& shard : snapshot.shards) {
    if (shard.info->variable != name) continue;
    for (int slot = -1; slot < static_cast<int>(shard.info->slots.size()); ++slot) {
      Tensor tensor(shard.info->dtype, shard.info->dims);
      auto* to = static_cast<uint8_t*>(tensor.raw());
      for (const ShardBlock& block : shard.blocks) {
        const BufferRef& bytes = slot < 0 ? block.values : block.slots[slot];
        std::memcpy(to, bytes->data(), bytes->size());
        to += bytes->size();
      }
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_EXEC_LOCAL_VARIABLES_TEST_UTIL_H_
