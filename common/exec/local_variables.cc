#include "common/exec/local_variables.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/status.h"
#include "common/exchange/row_check.h"
#include "common/optimizers/optimizers.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr size_t kIdleBytes = 1 << 20;

bool SameDims(const ValueType& type, const Dims& dims) {
  return std::equal(type.dims.begin(), type.dims.end(), dims.begin(), dims.end(),
                    [](const Dim& a, int64_t b) { return a.size == b && !a.bounded(); });
}

absl::Status CheckKeys(std::span<const int64_t> keys, const ShardInfo& info) {
  for (const int64_t key : keys) {
    if (key < 0 || key >= info.rows) return RowBeyondVariable(key, info.variable, info.rows);
  }
  return absl::OkStatus();
}

std::span<const uint8_t> BytesOf(std::span<const int64_t> keys) {
  return {reinterpret_cast<const uint8_t*>(keys.data()), keys.size_bytes()};
}

}  // namespace

// A variable of a program.
struct LocalVariables::Bound {
  const ShardInfo* info = nullptr;
  bool reads_average = false;  // VariableDecl
};

class LocalVariables::Access : public VariableAccess {
 public:
  Access(LocalVariables* variables, std::vector<Bound> bound, const DeviceParts& device)
      : variables_(variables), bound_(std::move(bound)), device_(device) {}

  absl::Status Begin(const PushBatch* push, const PullBatch* pull) override {
    if (interrupted_.load(std::memory_order_relaxed)) {
      return Cancelled("the exchange was interrupted");
    }
    result_ = {};
    if (push != nullptr) COHORT_RETURN_IF_ERROR(Push(*push));
    if (pull == nullptr) return absl::OkStatus();
    if (on_device()) return PullTo({}, &device_);
    for (const PullItem& item : pull->items) COHORT_RETURN_IF_ERROR(Pull(item));
    return absl::OkStatus();
  }
  absl::StatusOr<ExchangeResult> Finish() override { return result_; }
  bool on_device() const override { return device_.reader != nullptr; }
  void Interrupt() override { interrupted_.store(true, std::memory_order_relaxed); }

 private:
  absl::Status Push(const PushBatch& push) {
    entries_.clear();
    for (const PushItem& item : push.items) {
      COHORT_RETURN_IF_ERROR(AddEntry(item, *bound_[static_cast<size_t>(item.variable)].info));
    }
    const PushHeaderView header{.id = {.closure = ++variables_->updates_},
                                .place = push.stamp.place + push.stamp.ordinal,
                                .weight = push.stamp.weight,
                                .iteration_offset = push.stamp.iteration_offset};
    pushed_.Clear();
    variables_->tablet_->Push(/*generation=*/0, /*watermark=*/header.id.closure, header,
                              {.entries = entries_}, &pushed_, on_device() ? &device_ : nullptr);
    if (pushed_.status() != v1::APPLIED) return InvalidArgument("{}", pushed_.message());
    result_.push.applied = 1;
    result_.pulled_timeline = push.stamp.timeline;
    return absl::OkStatus();
  }

  absl::Status AddEntry(const PushItem& item, const ShardInfo& info) {
    PushEntryView entry{
        .shard = info.shard, .kind = item.kind, .sparse = item.sparse, .momentum = item.momentum};
    if (item.kind != PushKind::kRecordOnly) {
      if (item.sparse) COHORT_RETURN_IF_ERROR(CheckKeys(item.keys, info));
      entry.count = item.sparse ? item.keys.size() : static_cast<uint64_t>(info.elements());
      entry.keys = BytesOf(item.keys);
      entry.values = {static_cast<const uint8_t*>(item.value),
                      entry.count * (item.sparse ? info.row_bytes() : SizeOf(info.dtype))};
    }
    entries_.push_back(entry);
    return absl::OkStatus();
  }

  absl::Status Pull(const PullItem& item) {
    const Bound& bound = bound_[static_cast<size_t>(item.variable)];
    const ShardInfo& info = *bound.info;
    if (item.rows) COHORT_RETURN_IF_ERROR(CheckKeys(item.keys, info));
    if (item.lent != nullptr) *item.lent = nullptr;
    const PullEntryView entry{.shard = info.shard,
                              .rows = item.rows,
                              .average = bound.reads_average,
                              .count = item.keys.size(),
                              .keys = BytesOf(item.keys)};
    COHORT_RETURN_IF_ERROR(PullTo({&entry, 1}, nullptr));
    auto* to = static_cast<uint8_t*>(item.destination);
    for (const PayloadSlice& slice : slices_) {
      std::memcpy(to, slice.buffer->data() + slice.offset, slice.bytes);
      to += slice.bytes;
    }
    slices_.clear();  // the tablet may write in place again
    return absl::OkStatus();
  }

  absl::Status PullTo(std::span<const PullEntryView> entries, const DeviceParts* device) {
    pulled_.Clear();
    slices_.clear();
    variables_->tablet_->Pull(/*generation=*/0, /*step=*/0, {.entries = entries}, &pulled_,
                              &slices_, device);
    if (pulled_.status() == v1::APPLIED) return absl::OkStatus();
    return InvalidArgument("{}", pulled_.message());
  }

  LocalVariables* const variables_;
  const std::vector<Bound> bound_;  // by index of the program's variables
  const DeviceParts device_;
  std::atomic<bool> interrupted_{false};
  ExchangeResult result_;
  // Memory that exchanges reuse.
  std::vector<PushEntryView> entries_;
  std::vector<PayloadSlice> slices_;
  v1::PushResult pushed_;
  v1::PullResult pulled_;
};

LocalVariables::LocalVariables(std::unique_ptr<Tablet> tablet, BufferPool::Handle pool)
    : pool_(std::move(pool)), tablet_(std::move(tablet)) {}

absl::StatusOr<std::unique_ptr<LocalVariables>> LocalVariables::Create(
    std::span<const v1::VariableSpec> variables, std::span<const v1::OptimizerSpec> optimizers) {
  v1::Layout layout;
  layout.mutable_variables()->Add(variables.begin(), variables.end());
  layout.mutable_optimizers()->Add(optimizers.begin(), optimizers.end());
  for (uint32_t i = 0; i < variables.size(); ++i) {
    v1::ShardSpec* const shard = layout.add_shards();
    shard->set_shard(i);
    shard->set_variable(i);
    shard->set_rows(variables[i].dims_size() == 0 ? 1
                                                  : static_cast<uint64_t>(variables[i].dims(0)));
  }
  COHORT_ASSIGN_OR_RETURN(auto rules, LayoutRules::Create(layout));
  BufferPool::Handle pool = BufferPool::Create(kIdleBytes);
  COHORT_ASSIGN_OR_RETURN(
      auto tablet, Tablet::Create(layout, std::move(rules), pool.get(),
                                  {.max_repeated_bytes = std::numeric_limits<uint64_t>::max()}));
  COHORT_RETURN_IF_ERROR(tablet->Initialize(layout));
  COHORT_ASSIGN_OR_RETURN(TabletSnapshot snapshot, tablet->Snapshot(/*watermark=*/0));
  std::unique_ptr<LocalVariables> local(new LocalVariables(std::move(tablet), std::move(pool)));
  for (ShardSnapshot& shard : snapshot.shards) local->shards_.push_back(std::move(shard.info));
  return local;
}

absl::StatusOr<std::unique_ptr<VariableAccess>> LocalVariables::ForProgram(
    const Program& program, const DeviceParts& device) {
  std::vector<Bound> bound;
  for (const VariableDecl& decl : program.variables) {
    const auto found =
        std::ranges::find(shards_, decl.name, [](const auto& info) { return info->variable; });
    if (found == shards_.end()) {
      return NotFound("program \"{}\" needs the variable \"{}\", which is not there", program.name,
                      decl.name);
    }
    const ShardInfo& info = **found;
    if (info.dtype != decl.type.dtype || !SameDims(decl.type, info.dims)) {
      return InvalidArgument("program \"{}\" takes the variable \"{}\" for {}, but it is {}{}",
                             program.name, decl.name, TypeToString(decl.type),
                             DTypeName(info.dtype), DimsToString(info.dims));
    }
    bound.push_back({&info, decl.reads_average});
  }
  return std::make_unique<Access>(this, std::move(bound), device);
}

}  // namespace cohort
