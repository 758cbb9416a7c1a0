#include "chief/job/epoch_callbacks.h"

#include <algorithm>

#include "common/base/stable_bytes.h"

namespace cohort {
namespace {

void AddValues(const std::vector<MetricState>& metrics, const std::string& prefix,
               v1::EpochRecord* record) {
  for (const MetricState& metric : metrics) {
    (*record->mutable_values())[prefix + metric.name] = metric.Value();
  }
}

std::string CallbacksText(const v1::JobSpec& job) {
  v1::FitSpec callbacks;
  *callbacks.mutable_callbacks() = job.fit().callbacks();
  return StableBytes(callbacks);
}

}  // namespace

EpochCallbacks::EpochCallbacks(Options options) : options_(std::move(options)) {
  ContinueFrom(nullptr, {});
}

void EpochCallbacks::ContinueFrom(const v1::Manifest* from,
                                  const std::vector<v1::EpochRecord>& journal) {
  callbacks_.clear();
  for (const v1::ClassConfig& config : options_.configs) {
    const auto found = Callbacks().Find(config.class_name());
    if (!found.ok()) continue;  // the reader refuses it
    needs_finite_values_ |= (*found)->needs_finite_values;
    sets_learning_rate_ |= (*found)->sets_learning_rate;
    const Config complete(config);
    restores_best_ |=
        config.config().contains("restore_best_weights") && complete.Bool("restore_best_weights");
    if ((*found)->make != nullptr) callbacks_.push_back((*found)->make(complete));
  }
  std::vector<v1::EpochRecord> history;
  if (from != nullptr) history.assign(from->history().begin(), from->history().end());
  for (const v1::EpochRecord& record : journal) {
    if (history.empty() || record.epoch() > history.back().epoch()) history.push_back(record);
  }
  decision_ = {};  // no rate: that of the job, or what a user has set
  BeginEpoch(0);
  for (const v1::EpochRecord& record : history) Show(record);
  MutexLock lock(&mu_);
  history_ = std::move(history);
  trained_.Clear();
}

std::unique_ptr<EpochCallbacks> EpochCallbacks::Of(const v1::JobSpec& job) {
  const auto& callbacks = job.fit().callbacks();
  if (callbacks.empty()) return nullptr;
  return std::make_unique<EpochCallbacks>(Options{.configs = {callbacks.begin(), callbacks.end()},
                                                  .float32 = job.model().dtype() != "float64"});
}

bool EpochCallbacks::Knows(uint64_t epoch) const {
  MutexLock lock(&mu_);
  return epoch == 0 || (!history_.empty() && history_.back().epoch() >= epoch);
}

v1::EpochRecord EpochCallbacks::RecordOf(uint64_t epoch, const std::vector<MetricState>& training,
                                         const std::vector<MetricState>& validation,
                                         std::optional<double> learning_rate) const {
  v1::EpochRecord record;
  record.set_epoch(epoch);
  AddValues(training, "", &record);
  AddValues(validation, "val_", &record);
  if (sets_learning_rate_ && learning_rate.has_value()) record.set_learning_rate(*learning_rate);
  return record;
}

void EpochCallbacks::EndEpoch(v1::EpochRecord record) {
  Show(record);
  MutexLock lock(&mu_);
  history_.push_back(std::move(record));
}

void EpochCallbacks::Show(const v1::EpochRecord& record) {
  EpochValues epoch{.epoch = record.epoch()};
  if (record.has_learning_rate()) {
    epoch.learning_rate = decision_.learning_rate = record.learning_rate();
  }
  epoch.values.insert(record.values().begin(), record.values().end());
  decision_.news.clear();
  for (const auto& callback : callbacks_) {
    const std::string before = decision_.stop;
    callback->OnEpochEnd(epoch, &decision_);
    if (!before.empty()) decision_.stop = before;
  }
  BeginEpoch(record.epoch());
}

void EpochCallbacks::BeginEpoch(uint64_t epoch) {
  for (const auto& callback : callbacks_) callback->OnEpochBegin(epoch, &decision_);
  auto& rate = decision_.learning_rate;
  if (options_.float32 && rate.has_value()) rate = static_cast<double>(static_cast<float>(*rate));
}

std::vector<CallbackFile> EpochCallbacks::Files() const {
  std::vector<CallbackFile> files;
  for (const auto& callback : callbacks_) {
    if (auto file = callback->File(); file.has_value()) files.push_back(*std::move(file));
  }
  return files;
}

void EpochCallbacks::NoteTrained(uint64_t epochs, uint64_t steps, std::string why) {
  MutexLock lock(&mu_);
  trained_.set_trained_epochs(epochs);
  trained_.set_trained_steps(steps);
  trained_.set_stopped(std::move(why));
}

// A cut that began before the end of an epoch may be committed after it.
void EpochCallbacks::Complete(v1::Manifest* manifest) const {
  MutexLock lock(&mu_);
  for (const v1::EpochRecord& record : history_) {
    if (record.epoch() <= manifest->epoch()) *manifest->add_history() = record;
  }
  if (manifest->finished()) manifest->MergeFrom(trained_);
}

std::string WhyStopped(const v1::Manifest& newest, const v1::JobSpec& job) {
  if (newest.trained_steps() > newest.step()) {
    const bool same = CallbacksText(newest.job_spec()) == CallbacksText(job);
    return same ? newest.stopped() : "";
  }
  const std::unique_ptr<EpochCallbacks> callbacks = EpochCallbacks::Of(job);
  if (callbacks == nullptr) return "";
  callbacks->ContinueFrom(&newest, {});
  return callbacks->stopped();
}

}  // namespace cohort
