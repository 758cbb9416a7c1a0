#ifndef COHORT_COMMON_TABLET_TABLET_TEST_UTIL_H_
#define COHORT_COMMON_TABLET_TABLET_TEST_UTIL_H_

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/placement.h"
#include "common/tablet/tablet.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

// For tests alone.
namespace cohort::ps_test {

inline v1::VariableSpec Variable(const std::string& name, const std::vector<int64_t>& dims,
                                 double value = 0, v1::DType dtype = v1::FLOAT32) {
  v1::VariableSpec variable;
  variable.set_name(name);
  variable.set_dtype(dtype);
  for (const int64_t dim : dims) variable.add_dims(dim);
  variable.set_trainable(true);
  variable.mutable_initializer()->set_class_name("Constant");
  variable.mutable_initializer()->set_value(value);
  return variable;
}

inline v1::OptimizerSpec Sgd(double learning_rate, double momentum = 0,
                             const std::string& sparse_update = "keras") {
  return OptimizerOf("SGD",
                     {{"learning_rate", ConfigOf(learning_rate)}, {"momentum", ConfigOf(momentum)}},
                     sparse_update);
}

inline v1::OptimizerSpec Adam() { return OptimizerOf("Adam", {{"learning_rate", ConfigOf(0.1)}}); }

// Every variable in `shards` shards on servers of `cores` cores.
inline v1::Layout Layout(const std::vector<v1::VariableSpec>& variables,
                         const std::vector<v1::OptimizerSpec>& optimizers, int shards = 1,
                         const std::vector<int>& cores = {1}) {
  v1::PartitionerSpec partitioner;
  partitioner.set_class_name("FixedShards");
  partitioner.set_num_shards(static_cast<uint64_t>(shards));
  PlacementOptions options;
  options.cores = cores;
  options.bytes_per_tablet = 1;
  auto layout = MakeLayout(variables, partitioner, optimizers, options);
  INFO(layout.status());
  REQUIRE(layout.ok());
  return *std::move(layout);
}

inline v1::Layout Layout(const std::vector<v1::VariableSpec>& variables,
                         const v1::OptimizerSpec& optimizer, int shards = 1,
                         const std::vector<int>& cores = {1}) {
  return Layout(variables, std::vector<v1::OptimizerSpec>{optimizer}, shards, cores);
}

// A push section with its memory.
class TestPush {
 public:
  explicit TestPush(uint64_t closure, uint32_t ordinal = 0, uint64_t timeline = 1) {
    header_.id = {closure, ordinal};
    header_.place = closure;
    header_.timeline = timeline;
    header_.weight = 1;
    section_.term = 1;
  }

  template <typename T>
  TestPush& Dense(uint32_t shard, const std::vector<T>& values, uint64_t begin = 0,
                  PushKind kind = PushKind::kGradient) {
    PushEntryView entry;
    entry.shard = shard;
    entry.kind = kind;
    entry.begin = begin;
    entry.count = values.size();
    entry.values = Keep(values);
    entries_.push_back(entry);
    return *this;
  }
  template <typename T>
  TestPush& Sparse(uint32_t shard, const std::vector<int64_t>& keys, const std::vector<T>& rows,
                   PushKind kind = PushKind::kGradient) {
    PushEntryView entry;
    entry.shard = shard;
    entry.kind = kind;
    entry.sparse = true;
    entry.count = keys.size();
    entry.keys = Keep(keys);
    entry.values = Keep(rows);
    entries_.push_back(entry);
    return *this;
  }
  TestPush& RecordOnly(uint32_t shard) {
    PushEntryView entry;
    entry.shard = shard;
    entries_.push_back(entry);
    return *this;
  }

  PushHeaderView& header() { return header_; }
  PushEntryView& entry(size_t i) { return entries_[i]; }
  PushEntryView& last() { return entries_.back(); }
  PushSectionView& section() {
    section_.entries = entries_;
    return section_;
  }

 private:
  template <typename T>
  std::span<const uint8_t> Keep(const std::vector<T>& values) {
    std::vector<uint64_t> words((values.size() * sizeof(T) + 7) / 8 + 1);
    if (!values.empty()) std::memcpy(words.data(), values.data(), values.size() * sizeof(T));
    memory_.push_back(std::make_unique<std::vector<uint64_t>>(std::move(words)));
    return {reinterpret_cast<const uint8_t*>(memory_.back()->data()), values.size() * sizeof(T)};
  }

  PushHeaderView header_;
  PushSectionView section_;
  std::vector<PushEntryView> entries_;
  std::vector<std::unique_ptr<std::vector<uint64_t>>> memory_;
};

// A tablet that is pushed to and pulled from without a server. Timeline, term and generation are 1.
class TestTablet {
 public:
  explicit TestTablet(const v1::Layout& layout, size_t block_bytes = 64,
                      ThreadPool* helpers = nullptr, uint64_t max_repeated_bytes = 1 << 30)
      : TestTablet(layout,
                   ShardOptions{.block_bytes = block_bytes, .helpers = helpers, .split_bytes = 256},
                   max_repeated_bytes) {}
  TestTablet(const v1::Layout& layout, const ShardOptions& shard,
             uint64_t max_repeated_bytes = 1 << 30)
      : pool_(BufferPool::Create(1 << 20)) {
    auto rules = LayoutRules::Create(layout);
    INFO(rules.status());
    REQUIRE(rules.ok());
    Tablet::Options options;
    options.timeline = 1;
    options.term = 1;
    options.generation = 1;
    options.max_repeated_bytes = max_repeated_bytes;
    options.shard = shard;
    auto tablet = Tablet::Create(layout, *std::move(rules), pool_.get(), options);
    INFO(tablet.status());
    REQUIRE(tablet.ok());
    tablet_ = *std::move(tablet);
    REQUIRE(tablet_->Initialize(layout).ok());
  }

  Tablet* operator->() { return tablet_.get(); }
  BufferPool* pool() { return pool_.get(); }
  const PushEffect& effect() const { return effect_; }

  v1::PushResult Push(TestPush& push, uint64_t generation = 1, uint64_t watermark = 0,
                      const DeviceParts* device = nullptr) {
    v1::PushResult result;
    effect_ = tablet_->Push(generation, watermark, push.header(), push.section(), &result, device);
    return result;
  }

  // The slices of a pull, which keep the blocks shared as long as they live.
  std::vector<PayloadSlice> PullSlices(std::vector<PullEntryView> entries,
                                       v1::PullResult* result = nullptr) {
    v1::PullResult unused;
    std::vector<PayloadSlice> payload;
    PullSectionView section;
    section.term = 1;
    section.entries = entries;
    tablet_->Pull(1, 0, section, result == nullptr ? &unused : result, &payload);
    return payload;
  }

  template <typename T>
  static std::vector<T> Values(const std::vector<PayloadSlice>& payload) {
    std::vector<T> values;
    for (const PayloadSlice& slice : payload) {
      const auto* from = reinterpret_cast<const T*>(slice.buffer->data() + slice.offset);
      values.insert(values.end(), from, from + slice.bytes / sizeof(T));
    }
    return values;
  }

  template <typename T = float>
  std::vector<T> Pull(uint32_t shard) {
    PullEntryView entry;
    entry.shard = shard;
    return Values<T>(PullSlices({entry}));
  }
  template <typename T = float>
  std::vector<T> PullRows(uint32_t shard, const std::vector<int64_t>& keys) {
    PullEntryView entry;
    entry.shard = shard;
    entry.rows = true;
    entry.count = keys.size();
    entry.keys = {reinterpret_cast<const uint8_t*>(keys.data()), keys.size() * 8};
    return Values<T>(PullSlices({entry}));
  }

 private:
  BufferPool::Handle pool_;
  std::unique_ptr<Tablet> tablet_;
  PushEffect effect_;
};

// The values (slot -1) or a slot of a snapshot's shard.
template <typename T = float>
std::vector<T> SnapshotValues(const ShardSnapshot& shard, int slot = -1) {
  std::vector<T> values;
  for (const ShardBlock& block : shard.blocks) {
    const BufferRef& buffer = slot < 0 ? block.values : block.slots[slot];
    const auto* from = reinterpret_cast<const T*>(buffer->data());
    values.insert(values.end(), from, from + buffer->size() / sizeof(T));
  }
  return values;
}

}  // namespace cohort::ps_test

#endif  // COHORT_COMMON_TABLET_TABLET_TEST_UTIL_H_
