#include "chief/job/validation.h"

#include <algorithm>
#include <utility>

#include "chief/job/job_progress.h"
#include "common/base/status.h"

namespace cohort {

absl::Status Validation::Run(uint64_t finished_epochs) {
  const TimePoint began = clock_->Now();
  COHORT_ASSIGN_OR_RETURN(const std::vector<StepResult> results, RunClosures());
  metrics_.clear();
  for (const StepResult& result : results) FoldMetrics(result.metrics, &metrics_);
  Report(finished_epochs, ToSeconds(clock_->Now() - began));
  return absl::OkStatus();
}

void Validation::ForgetAfter(uint64_t finished_epochs) {
  done_epochs_ = std::min(done_epochs_, finished_epochs);
}

absl::StatusOr<std::vector<StepResult>> Validation::RunClosures() {
  std::vector<RemoteValue> values;
  for (const LeaseRange& batch : schedule_->ValidationBatches()) {
    ClosureSpec spec{
        .step = step_.function, .dataset = step_.dataset, .leases = {batch}, .training = false};
    COHORT_ASSIGN_OR_RETURN(RemoteValue value, cluster_->Schedule(std::move(spec)));
    values.push_back(std::move(value));
  }
  COHORT_RETURN_IF_ERROR(cluster_->Join());
  return Fetch(values);
}

void Validation::Report(uint64_t finished_epochs, double seconds) {
  const MetricsRecord record{.set = "validation",
                             .kind = "epoch",
                             .epoch = finished_epochs,
                             .step = cluster_->state().steps,
                             .metrics = ValuesOf(metrics_),
                             .seconds = seconds};
  console_->Print(fmt::format("{} validation, {}", schedule_->NameOf(finished_epochs),
                              FormatMetrics(record.metrics)));
  metrics_log_->Add(record);
}

}  // namespace cohort
