#ifndef COHORT_CHIEF_JOB_JOB_REPORT_H_
#define COHORT_CHIEF_JOB_JOB_REPORT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/api/coordinator_state.h"
#include "chief/job/epoch_runner.h"
#include "chief/job/metrics_log.h"

namespace cohort::v1 {
class Manifest;
}

namespace cohort {

// How a job ended, for a person. What the manifest and the journal know is counted over the whole
// life of the job; the rest is counted since this chief started, and the text says so.
struct JobReport {
  // The whole life of the job.
  uint64_t epochs = 0;
  uint64_t steps = 0;
  uint64_t examples = 0;                // 0: unknown, because workers read independently
  uint64_t updates = 0;                 // over all tablets, as the servers count them
  uint64_t tablets = 0;                 // of the last checkpoint
  std::vector<MetricTotal> training;    // of the last epoch; empty if another chief trained it
  std::vector<MetricTotal> validation;  // the last one; empty if another chief ran it
  std::string checkpoint;               // the newest one
  std::string best_checkpoint;          // of keep_best; "" = none
  std::string best_text;                // "val_loss 0.3126, epoch 4"
  // The step at which the job was finished before this chief started; nullopt: it was not.
  std::optional<uint64_t> found_finished;

  // Since this chief started.
  EpochRunner::Figures trained;
  CoordinatorState state;
  std::optional<double> first_step_seconds;  // from launch; only for a job that was not continued
  MetricsLog::Summary metrics_log;

  // Settings of the job.
  uint32_t steps_per_closure = 1;
  uint32_t pull_ahead = 0;
  std::string shard_plan;

  // Reads `manifest`, the job's last one, into the fields that it knows.
  void ReadManifest(const v1::Manifest& manifest);
  // Many lines. If metrics were lost, the reason is the last line.
  std::string Text() const;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_REPORT_H_
