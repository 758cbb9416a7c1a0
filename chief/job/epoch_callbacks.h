#ifndef COHORT_CHIEF_JOB_EPOCH_CALLBACKS_H_
#define COHORT_CHIEF_JOB_EPOCH_CALLBACKS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/metrics/metric_state.h"
#include "common/model/callbacks/callback.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace cohort {

// Runs `fit.callbacks` of a job, and keeps what every epoch gave. Manifests have this history, and
// the journal that of the epochs since. At the start and after a rollback new callbacks see the
// history again, so they need no state of their own on disk. The walk's thread uses it; Complete is
// thread-safe.
class EpochCallbacks {
 public:
  struct Options {
    std::vector<v1::ClassConfig> configs;  // complete
    bool float32 = true;                   // Keras keeps the rate in the type of the model
  };
  explicit EpochCallbacks(Options options);
  // Null if the job has no callbacks.
  static std::unique_ptr<EpochCallbacks> Of(const v1::JobSpec& job);

  // The job continues after the epochs of this manifest (null: none) and of `journal`.
  void ContinueFrom(const v1::Manifest* from, const std::vector<v1::EpochRecord>& journal);
  // The history has this epoch, counted from 1, or the epoch is 0.
  bool Knows(uint64_t epoch) const;
  // What an epoch with these metrics gave. Either list may be empty: they are unknown.
  // `learning_rate`: that of its last update.
  v1::EpochRecord RecordOf(uint64_t epoch, const std::vector<MetricState>& training,
                           const std::vector<MetricState>& validation,
                           std::optional<double> learning_rate) const;
  // The epoch has ended.
  void EndEpoch(v1::EpochRecord record);

  // Why the training ends before its last epoch; "": it does not.
  const std::string& stopped() const { return decision_.stop; }
  // The rate of the epoch that follows the history; nullopt: the optimizer has a schedule, or no
  // callback sets the rate.
  std::optional<double> learning_rate() const {
    return sets_learning_rate_ ? decision_.learning_rate : std::nullopt;
  }
  // What the callbacks say about the newest epoch, once.
  std::vector<std::string> TakeNews() { return std::exchange(decision_.news, {}); }
  // The files of the callbacks, as they are after the newest epoch.
  std::vector<CallbackFile> Files() const;
  bool needs_finite_values() const { return needs_finite_values_; }
  bool restores_best() const { return restores_best_; }
  // The training has ended after so much work because of `why` ("": no callback), and the state of
  // an earlier epoch is restored. The last manifest has all three.
  void NoteTrained(uint64_t epochs, uint64_t steps, std::string why);

  // Adds the history, and why the training has ended, to a manifest that is about to be written.
  void Complete(v1::Manifest* manifest) const;

 private:
  void Show(const v1::EpochRecord& record);
  void BeginEpoch(uint64_t epoch);

  const Options options_;
  bool needs_finite_values_ = false;
  bool restores_best_ = false;
  bool sets_learning_rate_ = false;
  std::vector<std::unique_ptr<Callback>> callbacks_;
  EpochDecision decision_;

  mutable Mutex mu_;
  std::vector<v1::EpochRecord> history_ ABSL_GUARDED_BY(mu_);  // in the order of epochs
  v1::Manifest trained_ ABSL_GUARDED_BY(mu_);                  // the fields of NoteTrained
};

// Why callbacks have ended the training of a finished manifest for a job, before the epochs that
// the job asks for; "": they have not, or the job has other callbacks now that would not.
std::string WhyStopped(const v1::Manifest& newest, const v1::JobSpec& job);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_EPOCH_CALLBACKS_H_
