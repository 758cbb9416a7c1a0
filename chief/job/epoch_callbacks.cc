#include "chief/job/epoch_callbacks.h"

#include <utility>

namespace cohort {
namespace {

void AddValues(const std::vector<MetricState>& metrics, const std::string& prefix,
               v1::EpochRecord* record) {
  for (const MetricState& metric : metrics) {
    (*record->mutable_values())[prefix + metric.name] = metric.Value();
  }
}

}  // namespace

EpochCallbacks::EpochCallbacks(std::vector<v1::ClassConfig> configs)
    : configs_(std::move(configs)) {
  ContinueFrom(nullptr);
}

void EpochCallbacks::ContinueFrom(const v1::Manifest* from) {
  callbacks_.clear();
  stopped_.clear();
  for (const v1::ClassConfig& config : configs_) {
    const auto found = Callbacks().Find(config.class_name());
    if (!found.ok()) continue;  // the reader refuses it
    needs_finite_values_ |= (*found)->needs_finite_values;
    if ((*found)->make != nullptr) callbacks_.push_back((*found)->make(Config(config)));
  }
  std::vector<v1::EpochRecord> history;
  if (from != nullptr) history.assign(from->history().begin(), from->history().end());
  for (const v1::EpochRecord& record : history) Show(record);
  MutexLock lock(&mu_);
  history_ = std::move(history);
}

std::unique_ptr<EpochCallbacks> EpochCallbacks::Of(const v1::JobSpec& job) {
  const auto& callbacks = job.fit().callbacks();
  if (callbacks.empty()) return nullptr;
  return std::make_unique<EpochCallbacks>(
      std::vector<v1::ClassConfig>(callbacks.begin(), callbacks.end()));
}

bool EpochCallbacks::Knows(uint64_t epoch) const {
  MutexLock lock(&mu_);
  return !history_.empty() && history_.back().epoch() >= epoch;
}

void EpochCallbacks::EndEpoch(uint64_t epoch, const std::vector<MetricState>& training,
                              const std::vector<MetricState>& validation) {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  AddValues(training, "", &record);
  AddValues(validation, "val_", &record);
  Show(record);
  MutexLock lock(&mu_);
  history_.push_back(std::move(record));
}

void EpochCallbacks::Show(const v1::EpochRecord& record) {
  EpochValues epoch{.epoch = record.epoch()};
  epoch.values.insert(record.values().begin(), record.values().end());
  for (const auto& callback : callbacks_) {
    const std::optional<std::string> why = callback->OnEpochEnd(epoch);
    if (why.has_value() && stopped_.empty()) stopped_ = *why;
  }
}

// A cut that began before the end of an epoch may be committed after it.
void EpochCallbacks::Complete(v1::Manifest* manifest) const {
  MutexLock lock(&mu_);
  for (const v1::EpochRecord& record : history_) {
    if (record.epoch() <= manifest->epoch()) *manifest->add_history() = record;
  }
}

}  // namespace cohort
