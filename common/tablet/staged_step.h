#ifndef COHORT_COMMON_TABLET_STAGED_STEP_H_
#define COHORT_COMMON_TABLET_STAGED_STEP_H_

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/exact_sum.h"
#include "common/tablet/device_row_sum.h"
#include "common/tablet/device_sum.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/shard_blocks.h"

namespace cohort {

// What the closures of an open step have pushed to one shard. All of them push the same kind.
//
// Gradients are summed. Updates of other kinds are few and small, and stay apart. Not thread-safe.
class StagedShard {
 public:
  // Errors: InvalidArgument if these entries are of another kind than those that were noted.
  absl::Status Check(const ShardInfo& info, std::span<const PushEntryView> entries) const;
  // Notes the kind of entries that will be added.
  void Note(std::span<const PushEntryView> entries);
  // Adds the entries of the next member, which were noted. `from`: the device in whose memory the
  // values of gradients are. `home`: that where the shard lies. Both may be null. Gradients are
  // summed at home if the first of them is in the memory of a device. Errors: those of the device;
  // then the sum is undefined.
  absl::Status Add(const ShardInfo& info, std::span<const PushEntryView> entries, Device* from,
                   const std::shared_ptr<Device>& home);
  // True if the gradients' sum is in the memory of a device.
  bool on_device() const { return on_device_; }
  // That sum, valid until the next Add or Clear. Errors: those of the device.
  absl::StatusOr<DeviceGradient> FinishOnDevice();
  // Brings that sum to the host's memory. Errors: those of the device.
  absl::Status BringToHost(const ShardInfo& info);
  // Adds the squares of the gradient, divided by `weight`; nothing if there is no gradient. Errors:
  // those of the device.
  absl::Status AddSquares(const ShardInfo& info, double weight, ExactSum* squares) const;
  // Clips each element of the gradient, if there is one, to [-most, most].
  void Clip(const ShardInfo& info, double most);
  // True if a member's gradient is in a sum that no member has brought: the ranks of a group sum
  // it, and its owner's push brings it (CollectiveGroup).
  bool lacks_sum() const { return summed_elsewhere_ && members_ == 0; }
  // True if a member has pushed anything, which may not be in the sums yet.
  bool noted() const { return noted_; }
  // True if a member's push is in the sums.
  bool has_any() const { return members_ > 0; }
  // True if a member has pushed a gradient.
  bool has_gradient() const { return members_ > 0 && kind_ == PushKind::kGradient; }
  // The sum as entries that Shard::Apply takes; valid until the next Add or Clear. Empty: no member
  // has pushed anything. An EMA is the mean of what the members pushed.
  std::span<const PushEntryView> Finish(const ShardInfo& info);
  // Keeps its memory for the next step.
  void Clear();

 private:
  // A copy of an update that is no gradient.
  struct Copy {
    PushEntryView entry;
    std::vector<uint64_t> memory;  // aligned as entries must be
  };
  absl::Status AddDense(const ShardInfo& info, std::span<const PushEntryView> parts, Device* from,
                        const std::shared_ptr<Device>& home);
  absl::Status AddRows(const ShardInfo& info, const PushEntryView& entry, Device* from);
  absl::Status AddRowsOnDevice(const PushEntryView& entry);
  size_t BytesOfSum(const ShardInfo& info) const;
  // Copies the sum from the memory of the device.
  absl::Status Download(std::span<uint8_t> to) const;
  void AddCopies(const ShardInfo& info, std::span<const PushEntryView> entries);

  bool noted_ = false;
  bool summed_elsewhere_ = false;
  PushKind kind_ = PushKind::kRecordOnly;
  bool sparse_ = false;
  bool on_device_ = false;  // the sum is in device_sum_, or those of rows in device_rows_
  // Kept from step to step.
  std::unique_ptr<DeviceSum> device_sum_;
  std::unique_ptr<DeviceRowSum> device_rows_;
  std::vector<uint64_t> sums_;  // elements of the variable's dtype
  size_t sum_bytes_ = 0;
  std::vector<int64_t> keys_;                  // sparse: in the order in which they came first
  absl::flat_hash_map<int64_t, size_t> rows_;  // by key: its row in sums_
  std::vector<Copy> copies_;
  uint32_t members_ = 0;  // that have pushed here
  std::vector<PushEntryView> finished_;
};

// What a tablet keeps of its open step until the chief closes it (design: "Consistency modes").
//
//   push of member i ──► i is next: into the sums at once ──┐
//                   └──► i came early: a copy, until its turn┴──► Sum: all members, in order
//
// So the sums do not depend on the order in which pushes arrive. Dense gradients of the first two
// members are added in any order, because the sum of two numbers is the same in both. If the chief
// may close a step without some of its closures, all pushes are copied. Not thread-safe: it belongs
// to its tablet.
class StagedStep {
 public:
  struct Member {
    bool staged = false;
    UpdateKey id;
    uint32_t attempt = 0;
    uint64_t place = 0;
    double weight = 0;
  };
  // The entries of one shard, which is shards_[shard] of the tablet.
  struct Group {
    size_t shard = 0;
    const ShardInfo* info = nullptr;  // lives as long as the tablet
    std::span<const PushEntryView> entries;
  };

  // The most closures of a step.
  static constexpr uint32_t kMaxMembers = 1 << 16;

  // `early_bytes`: to which the memory of its copies is added; may be null; outlives this.
  explicit StagedStep(size_t shards, std::atomic<uint64_t>* early_bytes = nullptr)
      : all_early_bytes_(early_bytes), shards_(shards) {}
  ~StagedStep() { SetEarlyBytes(0); }
  StagedStep(const StagedStep&) = delete;
  StagedStep& operator=(const StagedStep&) = delete;

  uint64_t step_try() const { return step_try_; }
  // Discards everything that is staged.
  void Restart(uint64_t step_try);
  bool empty() const {
    return std::none_of(members_.begin(), members_.end(),
                        [](const Member& member) { return member.staged; });
  }
  // Null if nothing is staged at this index.
  const Member* Find(uint32_t index) const;
  // True if the push of this member would be copied, because that of an earlier one is missing.
  bool IsEarly(uint32_t index) const { return index > next_ && !(index == 1 && next_ == 0); }
  // The memory that a copy of these entries takes.
  static uint64_t CopiedBytes(std::span<const PushEntryView> entries);
  // Errors: InvalidArgument if the push does not fit to what is staged.
  absl::Status Check(const PushHeaderView& header, std::span<const Group> groups) const;
  // Stages a push that has passed Check and is not staged yet. `from`, `home`: see
  // StagedShard::Add. Errors: those of a device; then the step must be restarted.
  absl::Status Add(const PushHeaderView& header, std::span<const Group> groups,
                   Device* from = nullptr, const std::shared_ptr<Device>& home = nullptr);
  // Completes the sums of these members, ascending; those that are not staged here have pushed
  // nothing to this tablet. Returns the members that are. Errors: those of Add.
  absl::StatusOr<std::vector<Member>> Sum(std::span<const uint32_t> indices);
  absl::StatusOr<DeviceGradient> FinishOnDevice(size_t shard) {
    return shards_[shard].FinishOnDevice();
  }
  absl::Status BringToHost(size_t shard, const ShardInfo& info) {
    return shards_[shard].BringToHost(info);
  }
  // After Sum: see StagedShard.
  const StagedShard& shard(size_t shard) const { return shards_[shard]; }
  void Clip(size_t shard, const ShardInfo& info, double most) { shards_[shard].Clip(info, most); }
  // What is to be applied to a shard, after Sum.
  std::span<const PushEntryView> Finish(size_t shard, const ShardInfo& info) {
    return shards_[shard].Finish(info);
  }

 private:
  // A push that came early: its entries with their values.
  struct Early {
    struct Part {
      size_t shard = 0;
      const ShardInfo* info = nullptr;
      std::vector<PushEntryView> entries;
    };
    std::vector<Part> parts;
    uint64_t bytes = 0;
    std::unique_ptr<uint64_t[]> memory;
    std::shared_ptr<Device> home;  // gradients are there; null: in the host's memory
    std::vector<DeviceMemory> device_memory;
  };
  static absl::StatusOr<Early> CopyOf(std::span<const Group> groups, Device* from,
                                      const std::shared_ptr<Device>& home);
  // Adds the copy of this member, if there is one.
  absl::StatusOr<bool> AddEarly(uint32_t index);
  void SetEarlyBytes(uint64_t bytes);

  std::atomic<uint64_t>* const all_early_bytes_;
  uint64_t step_try_ = 0;
  uint32_t next_ = 0;               // the members before it are in the sums
  bool second_came_first_ = false;  // member 1 is in the sums, while member 0 may not be
  std::vector<Member> members_;     // by index
  absl::flat_hash_map<uint32_t, Early> early_;
  uint64_t early_bytes_ = 0;  // the memory of these copies
  std::vector<StagedShard> shards_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_STAGED_STEP_H_
