#include "chief/core/settlement.h"

#include <algorithm>

#include "chief/core/finished_closures.h"
#include "common/base/crash_point.h"

namespace cohort {

void Settlement::Reset(uint64_t watermark, uint64_t closed_end, const std::vector<uint64_t>& open) {
  watermark_ = durable_watermark_ = watermark;
  done_.assign(closed_end > watermark ? closed_end - watermark : 0, true);
  for (const uint64_t id : open) {
    if (id >= watermark && id < closed_end) done_[id - watermark] = false;
  }
  news_.clear();
  dirty_ = false;
  under_way_ = 0;
  publish_ = false;
  while (!done_.empty() && done_.front()) {
    done_.pop_front();
    ++watermark_;
  }
  durable_watermark_ = watermark_;
}

void Settlement::SetFolded(Metrics metrics, uint64_t steps, ReaderPositions readers,
                           uint64_t epoch) {
  metrics_ = std::move(metrics);
  steps_ = steps;
  readers_ = std::move(readers);
  epoch_ = epoch;
}

void Settlement::SetFoldedFrom(const v1::ChiefCut& cut, uint64_t epoch) {
  ReaderPositions readers;
  readers.Add(cut.readers());
  SetFolded(SettledMetricsFromProto(cut.metrics()), FinishedSteps(cut), std::move(readers), epoch);
}

void Settlement::Mark(uint64_t id) {
  const uint64_t at = id - watermark_;
  if (at >= done_.size()) done_.resize(at + 1, false);
  done_[at] = true;
  news_.push_back(id);
  dirty_ = true;
  while (!done_.empty() && done_.front()) {
    done_.pop_front();
    ++watermark_;
  }
}

bool Settlement::IsDone(uint64_t id) const {
  if (id < watermark_) return true;
  const uint64_t at = id - watermark_;
  return at < done_.size() && done_[at];
}

bool Settlement::Finish(uint64_t id, bool training, const v1::ClosureResult& result) {
  if (IsDone(id)) return false;
  if (training) {
    bool finite = true;
    for (const v1::MetricValue& value : result.metrics()) {
      const bool is_loss = value.name() == kLossMetric;
      const auto folded = metrics_.find(value.name());
      if (folded == metrics_.end()) {
        const MetricState& state =
            metrics_.emplace(value.name(), MetricFromProto(value)).first->second;
        finite = finite && (!is_loss || state.finite());
      } else {
        const bool part_is_finite = FoldMetricValue(value, &folded->second);
        finite = finite && (!is_loss || part_is_finite);
      }
    }
    steps_ += result.steps();
    if (!finite && ++counters_.not_finite == 1) counters_.first_not_finite_step = steps_;
  }
  Mark(id);
  COHORT_CRASH_POINT("chief.result.folded");
  return true;
}

void Settlement::MoveReader(std::string_view resource, uint32_t worker, uint64_t batches) {
  if (readers_.Raise(resource, worker, batches)) dirty_ = true;
}

void Settlement::Close(uint64_t begin, uint64_t end) {
  for (uint64_t id = std::max(begin, watermark_); id < end; ++id) {
    if (!IsDone(id)) Mark(id);
  }
}

void Settlement::EndEpoch(int64_t now_us, const v1::EpochRecord* epoch_record) {
  Tick(now_us, /*force=*/true);
  v1::JournalRecord record;
  record.mutable_epoch()->set_epoch(epoch_);
  SettledMetricsToProto(metrics_, record.mutable_epoch()->mutable_metrics());
  if (epoch_record != nullptr) *record.mutable_epoch()->mutable_record() = *epoch_record;
  outbox_->Append(std::move(record));
  ++epoch_;
  metrics_.clear();
  dirty_ = true;
}

void Settlement::Tick(int64_t now_us, bool force) {
  if (!dirty_) return;
  const bool waits =
      under_way_ != 0 || now_us - last_us_ < interval_us_ || published_end_ != kNoLimit;
  if (waits && !force) return;
  v1::JournalRecord record;
  v1::Settle* settle = record.mutable_settle();
  settle->set_watermark(watermark_);
  for (const uint64_t id : news_) {
    if (id >= watermark_) settle->add_finished(id);
  }
  SettledMetricsToProto(metrics_, settle->mutable_metrics());
  settle->set_step(steps_);
  readers_.TakeNews(settle->mutable_readers());
  news_.clear();
  dirty_ = false;
  last_us_ = now_us;
  ++counters_.settle_records;
  under_way_watermark_ = watermark_;
  under_way_ = outbox_->Append(std::move(record));
  if (faults_.publish_before_durable) durable_watermark_ = under_way_watermark_;
}

void Settlement::OnJournaled(uint64_t record) {
  if (under_way_ == 0 || record < under_way_) return;
  under_way_ = 0;
  COHORT_CRASH_POINT("chief.settle.journaled");
  publish_ |= under_way_watermark_ > durable_watermark_;
  durable_watermark_ = std::max(durable_watermark_, under_way_watermark_);
}

std::vector<uint64_t> Settlement::DoneAbove() const {
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < done_.size(); ++i) {
    if (done_[i]) ids.push_back(watermark_ + i);
  }
  return ids;
}

void Settlement::Fill(v1::ChiefCut* cut) const {
  cut->set_settled_watermark(watermark_);
  SetFinished(DoneAbove(), cut);
  SettledMetricsToProto(metrics_, cut->mutable_metrics());
  readers_.Fill(cut->mutable_readers());
}

uint64_t FinishedSteps(const v1::ChiefCut& cut) {
  uint64_t steps = cut.next_place();
  for (const v1::PendingClosure& pending : cut.pending()) {
    steps -= std::min<uint64_t>(steps, pending.steps());
  }
  return steps;
}

void SettledMetricsToProto(const Settlement::Metrics& metrics, MetricValues* out) {
  for (const auto& [name, metric] : metrics) MetricToProto(metric, out->Add());
}

Settlement::Metrics SettledMetricsFromProto(const MetricValues& metrics) {
  Settlement::Metrics out;
  for (const v1::MetricValue& value : metrics) out[value.name()] = MetricFromProto(value);
  return out;
}

}  // namespace cohort
