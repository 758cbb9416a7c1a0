#ifndef COHORT_CHIEF_JOB_EPOCH_CALLBACKS_H_
#define COHORT_CHIEF_JOB_EPOCH_CALLBACKS_H_

#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/metrics/metric_state.h"
#include "common/model/callbacks/callback.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"

namespace cohort {

// Runs `fit.callbacks` of a job, and keeps what every epoch gave. Manifests have this history. At
// the start and after a rollback new callbacks see the history of the checkpoint again, so they
// need no state of their own on disk. The walk's thread uses it; Complete is thread-safe.
class EpochCallbacks {
 public:
  // `configs` are complete.
  explicit EpochCallbacks(std::vector<v1::ClassConfig> configs);
  // Null if the job has no callbacks.
  static std::unique_ptr<EpochCallbacks> Of(const v1::JobSpec& job);

  // The job continues from this checkpoint; null: from the beginning.
  void ContinueFrom(const v1::Manifest* from);
  // The history has this epoch, counted from 1.
  bool Knows(uint64_t epoch) const;
  // An epoch has ended with these metrics. Either list may be empty: they are unknown.
  void EndEpoch(uint64_t epoch, const std::vector<MetricState>& training,
                const std::vector<MetricState>& validation);
  // Why the training ends before its last epoch; "": it does not.
  const std::string& stopped() const { return stopped_; }
  bool needs_finite_values() const { return needs_finite_values_; }

  // Adds the history to a manifest that is about to be written.
  void Complete(v1::Manifest* manifest) const;

 private:
  void Show(const v1::EpochRecord& record);

  const std::vector<v1::ClassConfig> configs_;
  bool needs_finite_values_ = false;
  std::vector<std::unique_ptr<Callback>> callbacks_;
  std::string stopped_;

  mutable Mutex mu_;
  std::vector<v1::EpochRecord> history_ ABSL_GUARDED_BY(mu_);  // in the order of epochs
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_EPOCH_CALLBACKS_H_
