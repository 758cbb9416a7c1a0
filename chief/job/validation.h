#ifndef COHORT_CHIEF_JOB_VALIDATION_H_
#define COHORT_CHIEF_JOB_VALIDATION_H_

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "chief/api/training_cluster.h"
#include "chief/job/job_console.h"
#include "chief/job/job_schedule.h"
#include "chief/job/metrics_log.h"
#include "common/base/clock.h"

namespace cohort {

// Validates the model between two epochs, and reports the metrics. It uses closures that only pull,
// and each validation record once. It remembers which epochs this incarnation has validated. If the
// chief is killed or loses a server between an epoch and its validation, it validates that epoch
// again. One thread at a time may use it.
class Validation {
 public:
  struct Step {
    StepFunction function;
    PerWorkerDataset dataset;
  };

  Validation(TrainingCluster* cluster, const JobSchedule* schedule, const Clock* clock,
             const Step& step, JobConsole* console, MetricsLog* metrics_log)
      : cluster_(cluster),
        schedule_(schedule),
        clock_(clock),
        step_(step),
        console_(console),
        metrics_log_(metrics_log) {}

  // Validates the state after `finished_epochs`. Errors: those of TrainingCluster.
  absl::Status Run(uint64_t finished_epochs);
  // The work after the last Run is done, including the best checkpoint.
  void MarkDone(uint64_t finished_epochs) { done_epochs_ = finished_epochs; }
  // Forgets the validations of later epochs than `finished_epochs`.
  void ForgetAfter(uint64_t finished_epochs);
  bool IsDone(uint64_t finished_epochs) const { return finished_epochs <= done_epochs_; }

  // The metrics of the last Run.
  const std::vector<MetricState>& metrics() const { return metrics_; }

 private:
  absl::StatusOr<std::vector<StepResult>> RunClosures();
  void Report(uint64_t finished_epochs, double seconds);

  TrainingCluster* const cluster_;
  const JobSchedule* const schedule_;
  const Clock* const clock_;
  const Step step_;
  JobConsole* const console_;
  MetricsLog* const metrics_log_;

  std::vector<MetricState> metrics_;
  uint64_t done_epochs_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_VALIDATION_H_
