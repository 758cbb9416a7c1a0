#ifndef COHORT_COMMON_TABLET_TABLET_H_
#define COHORT_COMMON_TABLET_TABLET_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/exact_sum.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/optimizers/optimizers.h"
#include "common/tablet/applied_set.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/row_traffic.h"
#include "common/tablet/shard.h"
#include "common/tablet/staged_step.h"
#include "common/tablet/tablet_log.h"
#include "common/tablet/tablet_values.h"
#include "common/tensor/buffer.h"

namespace cohort {

struct DeviceParts;
struct DeviceCopies;

namespace v1 {
class AppliedSetProto;
class Layout;
class PullResult;
class PushResult;
class TabletCut;
class TaskFigures;
}  // namespace v1

// The state of a tablet at one moment, which goes into a checkpoint.
struct TabletSnapshot {
  TabletSnapshot();
  TabletSnapshot(TabletSnapshot&&) noexcept;
  ~TabletSnapshot();

  std::unique_ptr<v1::TabletCut> cut;
  std::vector<ShardSnapshot> shards;

  // Variables that have averages (use_ema) get them as their values, as at the end of Keras' fit.
  void TakeAverages();
};

// The effects of a push besides its result, for the metrics.
struct PushEffect {
  bool non_finite = false;  // a gradient contained a NaN or an infinity
  bool applied = false;
  uint64_t staleness = 0;
};

// Names a norm: that of the gradient of one variable, or of the gradients of all variables of an
// optimizer.
struct NormKey {
  uint32_t optimizer = 0;  // index into Layout.optimizers
  std::string variable;    // "": all of the optimizer
  auto operator<=>(const NormKey&) const = default;
};

// The squares of mean gradients, summed up.
using SquareSums = std::map<NormKey, ExactSum>;

// How the chief closes a synchronous step (v1.CloseStep).
struct CloseOrder {
  uint64_t step = 0;
  uint64_t step_try = 0;
  uint64_t iteration = 0;           // what the optimizer sees: updates before this one
  std::vector<uint32_t> members;    // their indices, ascending
  std::map<NormKey, double> norms;  // those that gradients are clipped by
  bool skip = false;                // nothing is applied, but the ids count
};

// Planted bugs: the simulator proves that it finds them. Only tests set them.
struct TabletTestFaults {
  bool snapshot_forgets_an_id = false;   // the newest id above the watermark is not in a snapshot
  bool snapshot_has_staged_ids = false;  // staged ids count as applied in a snapshot
  bool pull_ignores_step = false;        // a pull that came early is answered at once
  bool close_ignores_try = false;        // what an abandoned try has staged stays
  bool new_try_applies_ids = false;      // ids of an abandoned try count as applied
  bool answers_never_wait = false;       // Admission: for the memory of others
};

// A group of shards: the unit of ownership, of order, and of the record of applied updates. One
// thread at a time works on it; all methods are thread-safe.
//
//   pushes and pulls ──► fences ──► applied set ──► entries ──► apply ──► version + 1
//                          │            │              │
//                        FENCED     DUPLICATE       INVALID          nothing has changed
//                                   SETTLED
//
// A push of a synchronous step is staged: it changes no value, and no snapshot has it, until Close
// applies the sum of the step's closures once, under the ids of its members. The step's number is
// open_step() from the close of the step before to its own.
//
// The values may have a second place, the memory of a device (TabletValues). Then a step of this
// process can read them there, and its push updates them there; gradients of a synchronous step are
// summed there. All else works on the blocks in the host's memory.
//
// A push is all or nothing: Push checks every entry before the first byte changes. It records the
// id and applies the entries under one lock, so that no pull and no snapshot sees one without the
// other.
class Tablet {
 public:
  struct Options {
    uint32_t tablet = 0;
    uint64_t timeline = 0;
    uint64_t term = 0;
    uint64_t generation = 0;  // pushes and pulls of an older chief are fenced
    uint64_t open_step = 1;   // the first synchronous step that is not closed
    AppliedSet::Limits limits;
    ShardOptions shard;
    Gauge* version_gauge = nullptr;  // may be null; outlives the tablet
    // The memory of gradients that came before their turn, of all tablets; the same.
    std::atomic<uint64_t>* early_bytes = nullptr;
    // The most bytes that one section may pull beyond as many as the tablet has: keys may repeat.
    uint64_t max_repeated_bytes = uint64_t{4} << 30;
    TabletTestFaults test_faults;
  };

  // Makes the tablet's shards of the layout; Initialize or Fill sets their contents. `rules`: those
  // of the layout. `pool` outlives the tablet. Errors: InvalidArgument if the layout contradicts
  // itself.
  static absl::StatusOr<std::unique_ptr<Tablet>> Create(const v1::Layout& layout,
                                                        std::shared_ptr<const LayoutRules> rules,
                                                        BufferPool* pool, const Options& options);
  ~Tablet();

  // Set the contents before the tablet is served: by the variables' initializers, or by
  // `fill`(shard, slot (-1: the values), first row within the shard, rows, bytes to set). Bytes
  // that `fill` leaves keep what they are. Tables without bounds are left out: FillTables.
  absl::Status Initialize(const v1::Layout& layout);
  using Filler =
      absl::FunctionRef<absl::Status(const ShardInfo&, int, int64_t, int64_t, std::span<uint8_t>)>;
  absl::Status Fill(Filler fill);
  // Adds the rows of tables without bounds that `read`(shard, add, add_counts) gives to `add`(rows
  // of the shard, their values, slots and perhaps clocks), before the tablet is served, and the
  // counts of other rows (TableRows::AddCounts).
  using RowAdder = absl::FunctionRef<absl::Status(std::span<const int64_t>,
                                                  std::span<const std::span<const uint8_t>>)>;
  using TableReader = absl::FunctionRef<absl::Status(const ShardInfo&, RowAdder, RowAdder)>;
  absl::Status FillTables(TableReader read);
  // Sets what the tablet is part of (the fields of Options with these names), before it is served.
  void BeginTimeline(uint64_t timeline, uint64_t term, uint64_t generation, uint64_t open_step);
  // Adds the applied and settled ids of a cut, and sets its version.
  absl::Status Restore(const v1::AppliedSetProto& applied, uint64_t version);
  // Set the contents piece by piece before the tablet is served: rows of a dense range with the
  // values or one slot, rows of a table, and counts of rows (Shard::AddRows, AddCounts). Errors:
  // DataLoss if the shard has no such rows.
  absl::Status FillRows(uint32_t shard, int slot, int64_t row_begin, int64_t rows,
                        std::span<const uint8_t> bytes);
  absl::Status FillTable(uint32_t shard, bool counts, std::span<const int64_t> rows,
                         std::span<const std::span<const uint8_t>> tensors);
  // The clock of the rows that FillTable adds (TableRules). To be called before.
  void SetClock(uint64_t clock);
  // The first synchronous step that is not closed, and its try.
  void BeginStep(uint64_t open_step, uint64_t step_try);

  // Gives the values a second place, instead of one that they have. No readers: none. Errors: those
  // of DeviceValues::Make, and of TabletValues::ToHost for the place before.
  absl::Status Reside(DeviceCopies copies);

  // Applies one section and fills `result`. `generation` is the request's; the tablet accepts only
  // the generation of the chief that it heard last. `watermark` is the one that the chief sent.
  // `device`: what a step of this process pushes from a device; null: all values are in the host's
  // memory.
  PushEffect Push(uint64_t generation, uint64_t watermark, const PushHeaderView& header,
                  const PushSectionView& section, v1::PushResult* result,
                  const DeviceParts* device = nullptr);

  // Sums what the members have staged, and adds the squares of the gradients that are clipped by a
  // norm. Applies nothing. `close` has no norms yet. Errors: FailedPrecondition if another step is
  // open, the step was staged under a later try, or the tablet is retired.
  absl::Status AddSquares(const CloseOrder& close, SquareSums* squares);
  // Applies what the members have staged, once, unless the step is skipped, and opens the next
  // step. Fills `applied` with the members that have pushed to this tablet. Does nothing if the
  // step is closed already. Errors: FailedPrecondition if an earlier step is open, the step was
  // staged under a later try, or the tablet is retired; InvalidArgument if a norm is missing, or
  // the sum of a gradient that the ranks of a group sum; ResourceExhausted if the ids do not fit
  // (AppliedSet).
  absl::Status Close(const CloseOrder& close, PushEffect* effect,
                     std::vector<StagedStep::Member>* applied);
  // Discards what earlier tries of this step have staged.
  void Abandon(uint64_t step, uint64_t step_try);
  // The first synchronous step that is not closed here.
  uint64_t open_step() const { return open_step_.load(std::memory_order_acquire); }

  // Answers one section: all shards at the same version. Appends one slice for each entry of
  // `result`. `step`: the synchronous step that reads, 0: none. Before that step is open, the
  // answer is LATER; after it, DROPPED. `device`: where a step of this process reads the tablet;
  // the newest values are there when this returns.
  void Pull(uint64_t generation, uint64_t step, const PullSectionView& section,
            v1::PullResult* result, std::vector<PayloadSlice>* payload,
            const DeviceParts* device = nullptr);

  // References all blocks: O(blocks), no copy, unless the values are on a device. Later pushes do
  // not change the snapshot. Errors: those of TabletValues::ToHost.
  absl::StatusOr<TabletSnapshot> Snapshot(uint64_t watermark, const SnapshotRequest& request = {});

  // The memory that a push of this section, or the close of a step, would take because a snapshot
  // shares what it changes (ShardBlocks::BytesToCopy).
  uint64_t BytesToCopy(const PushSectionView& section);
  uint64_t BytesToCopyAtClose();
  // The memory that the copy of this section would take, if its gradients came before their turn.
  // The chief can close the step without some of a partial one's members, and all of its pushes
  // are copies: nobody waits for a turn, and the result is 0.
  uint64_t BytesIfEarly(const PushHeaderView& header, const PushSectionView& section);
  // Bytes of the values that a section pulls; 0 for a shard that is not here.
  uint64_t PulledBytes(const PullSectionView& section) const;
  // Values and slots.
  uint64_t bytes() const;
  // Bytes of older versions of large shards that answers, pins and snapshots still reference. Does
  // not wait: while another thread works on the tablet, it is the figure of the last call.
  uint64_t superseded_bytes() const;
  // Releases the memory that only a snapshot needed, which has ended.
  void Reclaim();

  // The log of a copy that has nothing yet: it begins with the tablet's state, now or, while
  // something is staged, behind the end of the step. Does nothing if it is the tablet's log.
  // Errors: those of Snapshot.
  absl::Status BeginLog(std::shared_ptr<TabletLog> log, uint64_t watermark);
  // The tablet serves under this term from now on, also if it was retired: another server had it,
  // or had its copy. `log`: see SetLog.
  void BeginTerm(uint64_t term, std::shared_ptr<TabletLog> log);

  // After the return, the tablet neither applies nor answers requests of an older generation.
  void Fence(uint64_t generation);
  // After the return, the tablet applies and answers nothing: every section gets MOVED.
  void Retire();

  const LayoutRules& rules() const { return *rules_; }
  uint32_t number() const { return options_.tablet; }
  uint64_t timeline() const { return options_.timeline; }
  uint64_t term() const { return term_.load(std::memory_order_relaxed); }
  // The generation of the chief that it heard last.
  uint64_t generation() const;
  // The number of applied updates, including those in the cuts that it was restored from.
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  // Does not wait for a running apply.
  uint64_t copied_blocks() const;
  // What steps have asked of the tablet, and what it has of variables that are read by rows. Does
  // not wait for a running apply.
  void AddFigures(v1::TaskFigures* figures) const;

 private:
  // How the gradients of a shard are clipped.
  struct ShardClipping {
    GradientClipping clipping;
    NormKey key;  // names its norm
  };

  Tablet(Options options, std::shared_ptr<const LayoutRules> rules,
         std::vector<std::unique_ptr<Shard>> shards, std::vector<ShardClipping> clippings);

  absl::StatusOr<TabletSnapshot> TakeSnapshot(uint64_t watermark, const SnapshotRequest* request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Begins next_log_ if nothing is staged.
  absl::Status BeginNextLog() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A part of a step has reached a sum or a shard, and the rest has not: no value may be read any
  // more.
  absl::Status Lose(absl::Status why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies the entries of a push that may be applied.
  absl::Status ApplyPush(const PushHeaderView& header, const DeviceParts* device,
                         PushEffect* effect) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Shard* Find(uint32_t shard) const;
  // The index in shards_; its size if the shard is not there.
  size_t FindIndex(uint32_t shard) const;
  void SetVersion(uint64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if a request of this generation and term may continue; else fills `result`.
  template <typename Result>
  bool PassesFence(uint64_t generation, uint64_t term, bool reader, Result* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns true if the id is new; else fills `result`.
  bool IsNew(const PushHeaderView& header, v1::PushResult* result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckPush(const PushHeaderView& header, const PushSectionView& section)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckPull(const PullSectionView& section) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Stage(uint64_t watermark, const PushHeaderView& header, const PushSectionView& section,
             const DeviceParts* device, v1::PushResult* result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Errors: those of AddSquares and Close.
  absl::Status CheckClose(const CloseOrder& close) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckNorms(const CloseOrder& close) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckSums(const CloseOrder& close) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Brings the values of a shard to where its sum is, or both to the host's memory if the sum is
  // clipped.
  absl::Status Join(size_t shard) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies the sum of a shard. Returns true if it contained a NaN or an infinity; a device does
  // not look. Errors: those of TabletValues::ApplyAtHome.
  absl::StatusOr<bool> ApplySum(size_t shard, const CloseOrder& close, double weight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void CountMoved(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    moved_bytes_.store(moved_bytes_.load(std::memory_order_relaxed) + bytes,
                       std::memory_order_relaxed);
  }

  Options options_;  // constant while the tablet is served, except the term: see term_
  const std::shared_ptr<const LayoutRules> rules_;  // the shards use its rules
  // The shards by number. The list is constant, their contents are guarded by mu_.
  const std::vector<std::unique_ptr<Shard>> shards_;
  const std::vector<ShardClipping> clippings_;  // by shard, as shards_
  RowTraffic traffic_;                          // counts under mu_
  std::atomic<uint64_t> moved_bytes_{0};        // payload of pulls and pushes; written under mu_
  std::atomic<uint64_t> version_{0};            // written under mu_
  std::atomic<uint64_t> open_step_{1};          // written under mu_
  std::atomic<uint64_t> term_{0};               // written under mu_

  mutable std::atomic<uint64_t> superseded_bytes_{0};  // the last figure; written under mu_

  mutable Mutex mu_;
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  bool retired_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<TabletLog> log_ ABSL_GUARDED_BY(mu_);       // null: nobody hears what it does
  std::shared_ptr<TabletLog> next_log_ ABSL_GUARDED_BY(mu_);  // begins when nothing is staged
  uint64_t log_watermark_ ABSL_GUARDED_BY(mu_) = 0;           // with which it does
  std::unique_ptr<TabletValues> values_ ABSL_GUARDED_BY(mu_);
  AppliedSet applied_ ABSL_GUARDED_BY(mu_);
  StagedStep staged_ ABSL_GUARDED_BY(mu_);  // what the open step has so far
  // Those of the running push.
  std::vector<StagedStep::Group> groups_ ABSL_GUARDED_BY(mu_);
  // By shard: equal to mark_ if the running push has named the shard.
  std::vector<uint64_t> marks_ ABSL_GUARDED_BY(mu_);
  uint64_t mark_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_TABLET_H_
