#ifndef COHORT_PS_SERVER_DATA_PATH_H_
#define COHORT_PS_SERVER_DATA_PATH_H_

#include <absl/status/statusor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/optimizers/device_copies.h"
#include "common/tablet/apply_log.h"
#include "common/tablet/push_pull_views.h"
#include "common/tablet/row_tier.h"
#include "common/tablet/tablet.h"
#include "ps_server/copies/copy_log.h"
#include "ps_server/copies/tablet_copy.h"
#include "ps_server/ps_metrics.h"

namespace cohort {

namespace v1 {
class AbandonStep;
class CloseStep;
class PushPullResponseHeader;
class StepPosition;
class StepSummed;
class SumStep;
class TakeHomes;
class TaskFigures;
}  // namespace v1

// The tablets that a server has at one time. Immutable except for the watermark. The watermark
// is a field of this set and not of the server, because a rollback takes it back: then a cut's
// pending closures can be completed.
struct TabletSet {
  uint64_t timeline = 0;
  uint64_t term = 0;
  std::shared_ptr<const v1::StepPosition> position;  // where synchronous steps begin
  std::shared_ptr<const LayoutRules> rules;          // the tablets use them
  std::shared_ptr<RowDisk> disk;                     // the tablets use it; may be null
  std::vector<std::shared_ptr<Tablet>> tablets;      // by number: those that it answers for
  std::vector<std::shared_ptr<TabletCopy>> copies;   // those that it keeps for their primaries
  std::vector<std::shared_ptr<CopyLog>> logs;        // for `tablets` that have a copy elsewhere
  mutable std::atomic<uint64_t> watermark{0};

  Tablet* Find(uint32_t number) const;
  const std::shared_ptr<TabletCopy>* FindCopy(uint32_t number) const;
  // Null: the tablet has no copy.
  std::shared_ptr<CopyLog> LogOf(uint32_t number) const;
  void AdvanceWatermark(uint64_t to) const;
};

// How far a server has closed synchronous steps.
struct CloseProgress {
  std::shared_ptr<const v1::StepPosition>
      begin;                                    // with which the tablets began; null: from nothing
  std::shared_ptr<const v1::CloseStep> newest;  // null: none since then

  uint64_t open_step() const;
  v1::StepPosition position() const;
};

// What copies must have before an answer may go.
class CopyMarks {
 public:
  void Add(std::shared_ptr<CopyLog> log) {
    const uint64_t end = log->end();
    marks_.emplace_back(std::move(log), end);
  }
  void Clear() { marks_.clear(); }
  // Sends copies what they lack. No lock may be held.
  void Flush() {
    for (const auto& [log, number] : marks_) log->Flush();
  }
  CopyLog::Answer MayAnswer() const {
    CopyLog::Answer all = CopyLog::Answer::kMay;
    for (const auto& [log, number] : marks_) all = std::max(all, log->MayAnswer(number));
    return all;
  }

 private:
  std::vector<std::pair<std::shared_ptr<CopyLog>, uint64_t>> marks_;
};

// Memory of one caller of DataPath::Handle, reused by each call.
struct DataPathScratch {
  std::string log_lines;
};

// Executes pushes and pulls: gives each section to its tablet, on the caller's thread. Many threads
// call Handle at once; a tablet's own lock is the only one held while it works. PsCore's control
// path calls the other methods. Lock order: mu_ is never held while a tablet's lock is taken.
class DataPath {
 public:
  // `metrics`, `clock` and `log` (may be null) outlive this.
  DataPath(PsMetrics* metrics, const Clock* clock, ApplyLog* log)
      : metrics_(metrics), clock_(clock), log_(log) {}

  // Executes the push sections, then the pull sections. Fills `header` (cleared by the caller) with
  // a result for every section, in order, and appends one slice to `payload` for each pulled entry.
  // `device`: see Tablet::Push and Tablet::Pull.
  void Handle(const RequestView& request, DataPathScratch* scratch,
              v1::PushPullResponseHeader* header, std::vector<PayloadSlice>* payload,
              const DeviceParts* device = nullptr);

  // The parts of Handle. `marks`: the answer may go when they are reached; what they wait for is
  // sent. Behind them, before it goes, WriteLog.
  void HandlePushes(const RequestView& request, DataPathScratch* scratch,
                    v1::PushPullResponseHeader* header, CopyMarks* marks,
                    const DeviceParts* device = nullptr);
  void WriteLog(std::string* lines);
  void HandlePulls(const RequestView& request, v1::PushPullResponseHeader* header,
                   std::vector<PayloadSlice>* payload, const DeviceParts* device = nullptr);

  // True if the request pulls for a synchronous step that is not open yet, so that its answer has
  // to wait for CloseStep.
  bool MustWait(const RequestView& request) const;

  // What Admission asks; see Tablet. MayStage: false if the request's gradients came before their
  // turn, and they and all others that did would take more than `most` bytes. It takes no lock
  // unless they would if they did.
  bool MayStage(const RequestView& request, uint64_t most) const;
  uint64_t BytesToCopy(const RequestView& request) const;
  uint64_t BytesToCopyAtClose() const;
  uint64_t PulledBytes(const RequestView& request) const;
  uint64_t SupersededBytes() const;
  // Values and slots of the tablets that are served. Tables without bounds grow.
  uint64_t ValueBytes() const;
  // Adds the figures of the tablets that are served.
  void AddFigures(v1::TaskFigures* figures) const;
  uint64_t EarlyBytes() const { return early_bytes_.load(); }
  // For Tablet::Options.
  std::atomic<uint64_t>* early_bytes() { return &early_bytes_; }
  // A snapshot has ended: releases the memory that only it needed.
  void Reclaim();

  // Called after each tablet, with the bytes of all tablets so far. It must not wait.
  using Progress = std::function<void(uint64_t bytes)>;
  // Adds up the squares that norms of a step are made of, on all tablets: see Tablet::AddSquares.
  // Errors: as for CloseStep.
  absl::Status SumStep(uint64_t generation, const v1::SumStep& sum, const Progress& progress,
                       v1::StepSummed* summed);
  // Closes a step on all tablets: see Tablet::Close. `generation` is that of the chief who asks.
  // Errors: Aborted if another chief or other tablets have come meanwhile; those of Tablet::Close.
  // `marks`: what copies must have before the close may be acknowledged. Before that, WriteLog of
  // `lines`.
  absl::Status CloseStep(uint64_t generation, const v1::CloseStep& close, const Progress& progress,
                         CopyMarks* marks, std::string* lines);
  void AbandonStep(const v1::AbandonStep& abandon);
  // Updates have these learning rates from now on. Errors: Aborted if another chief has come, or
  // nothing is served.
  absl::Status SetLearningRates(uint64_t generation, const v1::LearningRates& rates);
  // Waits for a close that is under way.
  CloseProgress closed_steps() const;
  // The same with the closes of copies that are here. The chief may have sent one to their
  // primaries alone before it died. `lacks`: a tablet or a copy that is here has not closed
  // the newest step.
  CloseProgress KnownCloses(bool* lacks) const;

  // Gives the variables a second place (Tablet::Reside), also those of tablets that are served
  // later. Errors: Unavailable: nothing is served now; those of Tablet::Reside.
  absl::Status Reside(const DeviceCopies& copies);

  // Serves these tablets from now on (null: none). When it returns, the previous tablets neither
  // apply nor answer anything.
  void Serve(std::shared_ptr<const TabletSet> tablets);
  // Answers for, and keeps copies of, the tablets of `take` from now on, of those that it has.
  // `make_log`(tablet, term) gives the log of a tablet that gets a copy. Errors: Aborted if another
  // chief or another timeline has come; FailedPrecondition if it does not have one of them.
  using MakeLog = std::function<std::shared_ptr<CopyLog>(const v1::TabletHome& home)>;
  absl::Status TakeHomes(uint64_t generation, const v1::TakeHomes& take, const MakeLog& make_log);
  // An entry of the log of a primary: see TabletCopy::Replay. Errors: NotFound if there is no such
  // copy here.
  absl::StatusOr<TabletCopy::Replayed> Replay(const v1::CopyEntry& entry,
                                              const TabletCopy::Payload& payload);
  // Keeps these copies besides the tablets of now. Errors: Aborted as for TakeHomes.
  absl::Status AddCopies(uint64_t generation, const std::shared_ptr<TabletSet>& made);
  // When it returns, no tablet applies a push of an older generation.
  void Fence(uint64_t generation);
  // Forgets the generation, for a new job. Call it only while nothing is served.
  void Reset();

  std::shared_ptr<const TabletSet> tablets() const;
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 private:
  void Push(const RequestView& request, const PushSectionView& section, const TabletSet* tablets,
            const DeviceParts* device, DataPathScratch* scratch, v1::PushPullResponseHeader* header,
            CopyMarks* marks);
  void Pull(const RequestView& request, const PullSectionView& section, const TabletSet* tablets,
            const DeviceParts* device, v1::PushPullResponseHeader* header,
            std::vector<PayloadSlice>* payload);

  // The tablets that a message of this chief about a step is for. Errors: Aborted.
  absl::StatusOr<std::shared_ptr<const TabletSet>> TabletsOf(uint64_t generation, uint64_t timeline,
                                                             uint64_t step) const;

  PsMetrics* const metrics_;
  const Clock* const clock_;
  ApplyLog* const log_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> early_bytes_{0};
  // Held while a step is closed: a chief that takes over sees all of a close or nothing of it.
  mutable Mutex close_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  CloseProgress steps_ ABSL_GUARDED_BY(close_mu_);
  DeviceCopies copies_ ABSL_GUARDED_BY(close_mu_);  // values lie there besides the blocks
  mutable Mutex mu_;
  std::shared_ptr<const TabletSet> tablets_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_DATA_PATH_H_
