#include "common/tablet/device_copy.h"

#include <map>
#include <string>

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<DeviceCopy>> DeviceCopy::Make(
    std::span<const std::unique_ptr<Shard>> shards, std::shared_ptr<const LayoutRules> rules,
    std::shared_ptr<ResidentVariables> variables, uint32_t tablet) {
  std::map<std::string, int64_t> rows;
  for (const auto& shard : shards) rows[shard->info().variable] += shard->info().rows;
  for (const auto& shard : shards) {
    const ShardInfo& info = shard->info();
    const int64_t all = info.dims.empty() ? 1 : info.dims[0];
    if (rows[info.variable] != all) {
      return Unimplemented("'{}' is cut: tablet {} has {} of its {} rows", info.variable, tablet,
                           rows[info.variable], all);
    }
    COHORT_RETURN_IF_ERROR(
        variables->Reserve({.name = info.variable,
                            .dtype = info.dtype,
                            .dims = info.dims,
                            .rule = std::shared_ptr<const OptimizerRule>(rules, shard->rule()),
                            .group = tablet}));
  }
  return std::unique_ptr<DeviceCopy>(new DeviceCopy(shards, std::move(variables), tablet));
}

absl::Status DeviceCopy::ToDevice() {
  COHORT_RETURN_IF_ERROR(lost_);
  if (newest_ != Newest::kHost) return absl::OkStatus();
  for (const auto& shard : shards_) {
    const ShardSnapshot now = shard->Snapshot();
    for (const ShardBlock& block : now.blocks) {
      for (int slot = -1; slot < static_cast<int>(now.info->slots.size()); ++slot) {
        const BufferRef& bytes = slot < 0 ? block.values : block.slots[slot];
        COHORT_RETURN_IF_ERROR(variables_->WriteRows(now.info->variable, slot,
                                                     now.info->row_begin + block.row_begin,
                                                     {bytes->data(), bytes->size()}));
      }
    }
  }
  newest_ = Newest::kBoth;
  return absl::OkStatus();
}

absl::Status DeviceCopy::ToHost() {
  COHORT_RETURN_IF_ERROR(lost_);
  if (newest_ != Newest::kDevice) return absl::OkStatus();
  for (const auto& shard : shards_) {
    COHORT_RETURN_IF_ERROR(shard->Overwrite(
        [&](int slot, int64_t first_row, int64_t /*rows*/, std::span<uint8_t> out) {
          const ShardInfo& info = shard->info();
          return variables_->ReadRows(info.variable, slot, info.row_begin + first_row, out);
        }));
  }
  newest_ = Newest::kBoth;
  return absl::OkStatus();
}

absl::Status DeviceCopy::Update(ResidentUpdate* update, uint64_t step) {
  COHORT_RETURN_IF_ERROR(ToDevice());
  newest_ = Newest::kDevice;
  lost_ = update->Apply(tablet_, step);
  return lost_;
}

}  // namespace cohort
