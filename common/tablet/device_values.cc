#include "common/tablet/device_values.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/base/status.h"
#include "common/optimizers/resident_variables.h"
#include "common/optimizers/rules/rule_update.h"

namespace cohort {

DeviceValues::DeviceValues(std::span<const std::unique_ptr<Shard>> shards,
                           std::shared_ptr<const LayoutRules> rules, DeviceCopies copies,
                           uint32_t tablet)
    : shards_(shards),
      rules_(std::move(rules)),
      copies_(std::move(copies)),
      tablet_(tablet),
      versions_(shards.size()),
      updates_(shards.size()) {
  for (Versions& versions : versions_) versions.readers.resize(copies_.readers.size());
}

absl::StatusOr<std::unique_ptr<DeviceValues>> DeviceValues::Make(
    std::span<const std::unique_ptr<Shard>> shards, std::shared_ptr<const LayoutRules> rules,
    DeviceCopies copies, uint32_t tablet) {
  std::unique_ptr<DeviceValues> values(
      new DeviceValues(shards, std::move(rules), std::move(copies), tablet));
  std::map<std::string, int64_t> rows;
  for (const auto& shard : shards) rows[shard->info().variable] += shard->info().rows;
  for (const auto& shard : shards) {
    const ShardInfo& info = shard->info();
    if (info.is_table()) {
      return Unimplemented("variable \"{}\" is a table without bounds, which no device holds",
                           info.variable);
    }
    if (info.hashed.has_value()) {
      return Unimplemented(
          "the rows of variable \"{}\" are partitioned by hash (strategy.partitioner, `rows: "
          "hash`), "
          "which no device holds",
          info.variable);
    }
    if (shard->rule() != nullptr &&
        std::holds_alternative<std::monostate>(shard->rule()->UpdateOfStep(info.dtype, 0).of)) {
      return Unimplemented(
          "variable \"{}\": devices update element by element, and its optimizer or its constraint "
          "does more",
          info.variable);
    }
    const bool is_cut = rows[info.variable] != (info.dims.empty() ? 1 : info.dims[0]);
    values->is_cut_ = values->is_cut_ || is_cut;
    for (size_t r = 0; r < values->copies_.readers.size(); ++r) {
      const bool is_home = r == values->copies_.home;
      COHORT_RETURN_IF_ERROR(values->copies_.readers[r]->Reserve(
          {.name = info.variable,
           .dtype = info.dtype,
           .dims = info.dims,
           .rule = std::shared_ptr<const OptimizerRule>(values->rules_, shard->rule()),
           .group = is_cut ? kNoGroup : tablet,
           .first_slot_row = info.row_begin,
           .slot_rows = is_home ? info.rows : 0}));
    }
  }
  COHORT_ASSIGN_OR_RETURN(values->scale_,
                          values->home()->Allocate(sizeof(double), "the factor of gradients"));
  return values;
}

std::shared_ptr<Device> DeviceValues::home() const {
  return copies_.readers[copies_.home]->device();
}

absl::Status DeviceValues::ToHost(size_t shard) {
  COHORT_RETURN_IF_ERROR(lost_);
  Versions& versions = versions_[shard];
  if (versions.blocks == versions.newest) return absl::OkStatus();
  const ShardInfo& info = shards_[shard]->info();
  COHORT_RETURN_IF_ERROR(shards_[shard]->Overwrite(
      [&](int slot, int64_t first_row, int64_t /*rows*/, std::span<uint8_t> out) {
        return copies_.readers[copies_.home]->ReadRows(info.variable, slot,
                                                       info.row_begin + first_row, out);
      }));
  versions.blocks = versions.newest;
  return absl::OkStatus();
}

absl::Status DeviceValues::ToHome(size_t shard) {
  COHORT_RETURN_IF_ERROR(lost_);
  Versions& versions = versions_[shard];
  if (versions.home == versions.newest) return absl::OkStatus();
  const ShardSnapshot now = shards_[shard]->Snapshot();
  const ShardInfo& info = *now.info;
  for (const ShardBlock& block : now.blocks) {
    for (int slot = -1; slot < static_cast<int>(info.slots.size()); ++slot) {
      const BufferRef& bytes = slot < 0 ? block.values : block.slots[slot];
      COHORT_RETURN_IF_ERROR(copies_.readers[copies_.home]->WriteRows(
          info.variable, slot, info.row_begin + block.row_begin, {bytes->data(), bytes->size()}));
    }
  }
  versions.home = versions.newest;
  return absl::OkStatus();
}

absl::Status DeviceValues::ToReader(const DeviceParts& step) {
  const auto found =
      std::ranges::find(copies_.readers, step.reader, &std::shared_ptr<ResidentVariables>::get);
  if (found == copies_.readers.end()) {
    return InvalidArgument(
        "a step reads the variables of tablet {} on a device that has none of them", tablet_);
  }
  const auto r = static_cast<size_t>(found - copies_.readers.begin());
  for (size_t i = 0; i < shards_.size(); ++i) {
    COHORT_RETURN_IF_ERROR(ToHome(i));
    uint64_t& version = versions_[i].readers[r];
    if (r == copies_.home || version == versions_[i].newest) continue;
    const ShardInfo& info = shards_[i]->info();
    COHORT_RETURN_IF_ERROR((*found)->CopyRows(info.variable, info.row_begin, info.rows,
                                              *copies_.readers[copies_.home]));
    version = versions_[i].newest;
  }
  return absl::OkStatus();
}

bool DeviceValues::Apply(size_t shard, std::span<const PushEntryView> entries, double weight,
                         uint64_t step) {
  versions_[shard].blocks = ++versions_[shard].newest;
  return shards_[shard]->Apply(entries, weight, step, &scratch_);
}

void DeviceValues::HomeChanged(size_t shard) { versions_[shard].home = ++versions_[shard].newest; }

absl::Status DeviceValues::Update(const DeviceParts& step, uint64_t number) {
  if (is_cut_) return Unimplemented("tablet {} has only parts of its variables", tablet_);
  if (copies_.readers.size() != 1) {
    return Unimplemented("the steps of several devices read tablet {}: they must push gradients",
                         tablet_);
  }
  for (size_t i = 0; i < shards_.size(); ++i) COHORT_RETURN_IF_ERROR(ToHome(i));
  lost_ = step.update->Apply(tablet_, number);
  for (size_t i = 0; i < shards_.size(); ++i) HomeChanged(i);
  return lost_;
}

absl::Status DeviceValues::MakeUpdate(size_t shard, const DevicePush& push) {
  const ShardInfo& info = shards_[shard]->info();
  COHORT_ASSIGN_OR_RETURN(const ResidentVariables::Variable* whole,
                          copies_.readers[copies_.home]->Find(info.variable));
  DeviceVariable part = whole->at;
  const size_t offset = static_cast<size_t>(info.row_begin) * info.row_bytes();
  part.rows = info.rows;
  part.value = static_cast<uint8_t*>(part.value) + offset;
  for (size_t s = 0; s < whole->slots; ++s) {
    part.slots[s] = static_cast<uint8_t*>(part.slots[s]) + offset -
                    static_cast<size_t>(whole->first_slot_row) * info.row_bytes();
  }
  COHORT_ASSIGN_OR_RETURN(const VariableOps* ops, VariableOps::Of(home()->kind()));
  COHORT_ASSIGN_OR_RETURN(auto op, ops->Update(shards_[shard]->rule(), part, push,
                                               reinterpret_cast<const double*>(scale_.data())));
  COHORT_ASSIGN_OR_RETURN(updates_[shard].run, VariableOpRun::Make(home(), std::move(op)));
  updates_[shard].push = push;
  return absl::OkStatus();
}

absl::Status DeviceValues::ApplyAtHome(size_t shard, const DeviceGradient& gradient, double weight,
                                       uint64_t step) {
  if (!(updates_[shard].push == gradient.push)) {
    COHORT_RETURN_IF_ERROR(MakeUpdate(shard, gradient.push));
  }
  const double scale = weight == 0 ? 0 : 1 / weight;
  lost_ = home()->CopyToDevice(scale_.data(), &scale, sizeof(scale));
  if (lost_.ok()) lost_ = updates_[shard].run->Run({.step = step, .keys = gradient.keys});
  HomeChanged(shard);
  return lost_;
}

}  // namespace cohort
