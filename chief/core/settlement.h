#ifndef COHORT_CHIEF_CORE_SETTLEMENT_H_
#define COHORT_CHIEF_CORE_SETTLEMENT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/outbox.h"
#include "chief/core/reader_positions.h"

namespace cohort {

// Which closure ids are finished or cancelled for good, the metrics folded from them, how far
// workers have read for them, and the settled watermark: the first id that is not. Nothing of it is
// told to anyone before a Settle record that says so is durable; records are written at most every
// settle_interval.
//
//   (1) Finish / Close         (2) Tick, interval over         (3) OnJournaled
//   clean ──────────► dirty ───────────────► record under way ───────────────► published
//                      ▲                        (dirty again: 1)                    │
//                      └────────────────────────────────────────────────────────────┘
class Settlement {
 public:
  struct Metric {
    double total = 0;
    double count = 0;
  };
  // By name, in the order of their names.
  using Metrics = std::map<std::string, Metric, std::less<>>;

  Settlement(Outbox* outbox, int64_t interval_us, const CoreTestFaults& faults = {})
      : outbox_(outbox), interval_us_(interval_us), faults_(faults) {}

  // Starts anew: everything below `watermark` is settled (and known to be so by a durable record),
  // and of [watermark, closed_end) everything but `open`.
  void Reset(uint64_t watermark, uint64_t closed_end, const std::vector<uint64_t>& open);
  void SetFolded(Metrics metrics, uint64_t steps);
  void SetReaders(ReaderPositions readers) { readers_ = std::move(readers); }

  // Folds a finished closure, once: false where the id was done before. `training`: its metrics and
  // steps count.
  bool Finish(uint64_t id, bool training, const v1::ClosureResult& result);
  // A reader has come so far.
  void MoveReader(std::string_view resource, uint32_t worker, uint64_t batches);
  // Ids that will never be used, or are cancelled for good.
  void Close(uint64_t begin, uint64_t end);
  bool IsDone(uint64_t id) const;

  // Writes a record where there is news and the interval is over; `force`: without waiting for it.
  void Tick(int64_t now_us, bool force = false);
  // True where the durable watermark moved: now it may be told.
  bool OnJournaled(uint64_t record);

  // Every id below is settled: in memory, and durably.
  uint64_t watermark() const { return watermark_; }
  uint64_t durable_watermark() const { return durable_watermark_; }
  // Done ids at or above the watermark.
  std::vector<uint64_t> DoneAbove() const;
  // Whether everything that is known has been written durably.
  bool clean() const { return !dirty_ && under_way_ == 0; }

  const Metrics& metrics() const { return metrics_; }
  void ClearMetrics();
  const ReaderPositions& readers() const { return readers_; }
  // Training steps finished.
  uint64_t steps() const { return steps_; }
  uint64_t records() const { return records_; }
  // Folded closures with a metric that is infinite or no number, and the step that the first one
  // came to.
  uint64_t not_finite() const { return not_finite_; }
  uint64_t first_not_finite_step() const { return first_not_finite_step_; }

 private:
  void Mark(uint64_t id);

  Outbox* const outbox_;
  const int64_t interval_us_;
  const CoreTestFaults faults_;
  uint64_t watermark_ = 1;
  std::deque<bool> done_;       // of ids from the watermark on; the first one is never true
  std::vector<uint64_t> news_;  // done since the last record
  Metrics metrics_;
  ReaderPositions readers_;
  uint64_t steps_ = 0;
  uint64_t not_finite_ = 0;
  uint64_t first_not_finite_step_ = 0;
  bool dirty_ = false;
  uint64_t under_way_ = 0;  // number of the record that is being written
  uint64_t under_way_watermark_ = 0;
  uint64_t durable_watermark_ = 1;
  int64_t last_us_ = INT64_MIN / 2;
  uint64_t records_ = 0;
};

// Metrics as they stand in records and manifests.
void MetricsToProto(const Settlement::Metrics& metrics,
                    google::protobuf::RepeatedPtrField<v1::MetricValue>* out);
Settlement::Metrics MetricsFromProto(
    const google::protobuf::RepeatedPtrField<v1::MetricValue>& metrics);

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_SETTLEMENT_H_
