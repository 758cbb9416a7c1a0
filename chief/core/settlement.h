#ifndef COHORT_CHIEF_CORE_SETTLEMENT_H_
#define COHORT_CHIEF_CORE_SETTLEMENT_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/core_counters.h"
#include "chief/core/outbox.h"
#include "chief/core/reader_positions.h"
#include "common/metrics/metric_proto.h"
#include "common/metrics/metric_state.h"

namespace cohort {

// Keeps the closure ids that are settled (finished, or permanently cancelled), and what their
// results add to the epoch: the folded metrics and the readers' positions. The settled watermark is
// the first id that is not settled. The chief publishes the watermark only when the Settle record
// with it is durable. It writes at most one record per settle_interval.
//
//   (1) Finish / Close         (2) Tick, interval over         (3) OnJournaled
//   clean ──────────► dirty ───────────────► record under way ───────────────► published
//                      ▲                        (dirty again: 1)                    │
//                      └────────────────────────────────────────────────────────────┘
class Settlement {
 public:
  // By name.
  using Metrics = std::map<std::string, MetricState, std::less<>>;

  static constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

  Settlement(Outbox* outbox, int64_t interval_us, const ProtocolFaults& faults = {})
      : outbox_(outbox), interval_us_(interval_us), faults_(faults) {}

  // Starts from a known state: every id below `watermark` is durably settled, and so is every id of
  // [watermark, closed_end) except `open`.
  void Reset(uint64_t watermark, uint64_t closed_end, const std::vector<uint64_t>& open);
  void SetFolded(Metrics metrics, uint64_t steps, ReaderPositions readers, uint64_t epoch);
  // Takes metrics, steps and readers from a cut.
  void SetFoldedFrom(const v1::ChiefCut& cut, uint64_t epoch);

  // Folds a finished closure once. Returns false if its id is already settled. `training`: its
  // metrics (checked ones) and steps count.
  bool Finish(uint64_t id, bool training, const v1::ClosureResult& result);
  // Notes that a reader has reached this position.
  void MoveReader(std::string_view resource, uint32_t worker, uint64_t batches);
  // Settles ids that will never be used or are permanently cancelled.
  void Close(uint64_t begin, uint64_t end);
  bool IsDone(uint64_t id) const;
  // Journals the epoch's metrics and starts those of the next epoch.
  void EndEpoch(int64_t now_us, const v1::EpochRecord* epoch_record);

  // Writes a record if something has changed, and either `force` is set, or the interval is over
  // and no close is repeated.
  void Tick(int64_t now_us, bool force = false);
  void OnJournaled(uint64_t record);

  // Every id below it is settled: in memory, or durably.
  uint64_t watermark() const { return watermark_; }
  uint64_t durable_watermark() const { return std::min(durable_watermark_, published_end_); }
  // While a close is repeated: ids from here on are settled, but their pushes may not be applied
  // yet, so that no watermark is published above it, and Tick writes none.
  void LimitPublished(uint64_t end) {
    publish_ |= end > published_end_;
    published_end_ = end;
  }
  // The servers are served again: they may lack the watermark.
  void PublishAgain() { publish_ = true; }
  // Returns true once after the durable watermark has moved: it may be published now.
  bool TakePublish() { return std::exchange(publish_, false); }
  // The settled ids at or above the watermark.
  std::vector<uint64_t> DoneAbove() const;
  // True if everything that is settled is durable.
  bool clean() const { return !dirty_ && under_way_ == 0; }

  // Adds the settled ids, the metrics and the readers to a cut.
  void Fill(v1::ChiefCut* cut) const;
  const Metrics& metrics() const { return metrics_; }
  const ReaderPositions& readers() const { return readers_; }
  // Finished epochs of the job.
  uint64_t epoch() const { return epoch_; }
  // Finished training steps of the job.
  uint64_t steps() const { return steps_; }
  const SettlementCounters& counters() const { return counters_; }

 private:
  void Mark(uint64_t id);

  Outbox* const outbox_;
  const int64_t interval_us_;
  const ProtocolFaults faults_;
  uint64_t watermark_ = 1;
  std::deque<bool> done_;       // by id, from the watermark; the first one is never true
  std::vector<uint64_t> news_;  // ids settled since the last record
  Metrics metrics_;
  ReaderPositions readers_;
  uint64_t epoch_ = 0;
  uint64_t steps_ = 0;
  bool dirty_ = false;
  uint64_t under_way_ = 0;  // number of the record that is being written
  uint64_t under_way_watermark_ = 0;
  uint64_t durable_watermark_ = 1;
  uint64_t published_end_ = kNoLimit;
  bool publish_ = false;
  int64_t last_us_ = INT64_MIN / 2;
  SettlementCounters counters_;
};

// Returns the training steps that are finished at a cut: its places without those of unfinished
// closures.
uint64_t FinishedSteps(const v1::ChiefCut& cut);
// Convert metrics for records and manifests, whose readers have checked them.
void SettledMetricsToProto(const Settlement::Metrics& metrics, MetricValues* out);
Settlement::Metrics SettledMetricsFromProto(const MetricValues& metrics);

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_SETTLEMENT_H_
