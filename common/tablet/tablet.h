#ifndef COHORT_COMMON_TABLET_TABLET_H_
#define COHORT_COMMON_TABLET_TABLET_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/optimizers/optimizer_rules.h"
#include "common/tablet/applied_set.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/shard.h"
#include "common/tensor/buffer.h"

namespace cohort {

namespace v1 {
class AppliedSetProto;
class Layout;
class PullResult;
class PushResult;
class TabletCut;
}  // namespace v1

// A tablet at one moment: what of it goes into a checkpoint.
struct TabletSnapshot {
  TabletSnapshot();
  TabletSnapshot(TabletSnapshot&&) noexcept;
  ~TabletSnapshot();

  std::unique_ptr<v1::TabletCut> cut;
  std::vector<ShardSnapshot> shards;
};

// What a push did beside its result, for the metrics.
struct PushEffect {
  bool non_finite = false;  // a gradient had a NaN or an infinity in it
  bool applied = false;
  uint64_t staleness = 0;
};

// Planted bugs, with which the simulator proves that it would find them. Set by tests alone.
struct TabletTestFaults {
  bool snapshot_forgets_an_id = false;  // the newest id above the watermark is not in a snapshot
};

// A group of shards: the unit of ownership, of order, and of the record of applied updates. One
// thread at a time works on it; all methods are thread-safe.
//
//   pushes and pulls ──► fences ──► applied set ──► entries ──► apply ──► version + 1
//                          │            │              │
//                        FENCED     DUPLICATE       INVALID          nothing has changed
//                                   SETTLED
//
// A push is all or nothing: every entry is checked before the first byte changes, and the id is
// recorded with the apply under one lock, so that no pull and no snapshot sees one without the
// other.
class Tablet {
 public:
  struct Options {
    uint32_t tablet = 0;
    uint64_t timeline = 0;
    uint64_t term = 0;
    uint64_t generation = 0;  // pushes and pulls of an older chief are fenced
    AppliedSet::Limits limits;
    ShardOptions shard;
    Gauge* version_gauge = nullptr;  // may be null; outlives the tablet
    // What one section may pull at most: more at once no stream holds (TransportOptions).
    uint64_t max_pulled_bytes = uint64_t{4} << 30;
    TabletTestFaults test_faults;
  };

  // Makes the tablet's shards of the layout, with contents still to be set. `pool` outlives the
  // tablet. Errors: InvalidArgument where the layout contradicts itself.
  static absl::StatusOr<std::unique_ptr<Tablet>> Create(const v1::Layout& layout,
                                                        std::shared_ptr<const OptimizerRule> rule,
                                                        BufferPool* pool, const Options& options);
  ~Tablet();

  // Before the tablet is served: contents by the variables' initializers, or by `fill`(shard, slot
  // (-1: the values), first row within the shard, rows, bytes to set).
  absl::Status Initialize(const v1::Layout& layout);
  using Filler =
      absl::FunctionRef<absl::Status(const ShardInfo&, int, int64_t, int64_t, std::span<uint8_t>)>;
  absl::Status Fill(Filler fill);
  // Adds applied and settled ids, and sets the version, as a cut has them.
  absl::Status Restore(const v1::AppliedSetProto& applied, uint64_t version);

  // Applies one section and fills `result`. `generation` is of the request: the chief's that was
  // heard last, no other. `watermark` is the chief's word.
  PushEffect Push(uint64_t generation, uint64_t watermark, const PushHeaderView& header,
                  const PushSectionView& section, v1::PushResult* result);

  // Answers one section: all shards as of one version. Appends one slice for each entry of
  // `result`. `version`: 0, the newest (to wait for one comes with the synchronous mode).
  void Pull(uint64_t generation, uint64_t version, const PullSectionView& section,
            v1::PullResult* result, std::vector<PayloadSlice>* payload);

  // References to all blocks: O(blocks), no copy. What is pushed later does not change it.
  TabletSnapshot Snapshot(uint64_t watermark);

  // From the return on, nothing of an older generation is applied or answered.
  void Fence(uint64_t generation);
  // From the return on, nothing is applied or answered: every section gets MOVED.
  void Retire();

  uint32_t number() const { return options_.tablet; }
  uint64_t timeline() const { return options_.timeline; }
  uint64_t term() const { return options_.term; }
  // Updates applied, all cuts included that it was restored from.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  // Does not wait for an apply.
  uint64_t copied_blocks() const;

 private:
  // The entries of one shard, next to each other.
  struct Group {
    Shard* shard = nullptr;
    std::span<const PushEntryView> entries;
  };

  Tablet(Options options, std::shared_ptr<const OptimizerRule> rule)
      : options_(std::move(options)), rule_(std::move(rule)), applied_(options_.limits) {}

  Shard* Find(uint32_t shard) const;
  // In shards_; its size where it is not there.
  size_t FindIndex(uint32_t shard) const;
  void SetVersion(uint64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether a request of this generation and term may go on; else fills `result`.
  template <typename Result>
  bool PassesFence(uint64_t generation, uint64_t term, bool reader, Result* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The verdict on the id: true where it is new, else fills `result`.
  bool IsNew(const PushHeaderView& header, v1::PushResult* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckPush(const PushHeaderView& header, const PushSectionView& section)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckPull(uint64_t version, const PullSectionView& section)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  const std::shared_ptr<const OptimizerRule> rule_;  // null where no variable is trainable
  // The shards by number. The list is constant, their contents are guarded by mu_.
  std::vector<std::unique_ptr<Shard>> shards_;
  std::atomic<uint64_t> version_{0};  // written under mu_

  mutable Mutex mu_;
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  bool retired_ ABSL_GUARDED_BY(mu_) = false;
  AppliedSet applied_ ABSL_GUARDED_BY(mu_);
  std::vector<Group> groups_ ABSL_GUARDED_BY(mu_);  // of the push under way
  // Which shards it has named: those whose mark is the push's.
  std::vector<uint64_t> marks_ ABSL_GUARDED_BY(mu_);
  uint64_t mark_ ABSL_GUARDED_BY(mu_) = 0;
  ApplyScratch scratch_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_TABLET_H_
