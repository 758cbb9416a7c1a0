#ifndef COHORT_CHIEF_JOB_JOB_REPORT_H_
#define COHORT_CHIEF_JOB_JOB_REPORT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chief/api/coordinator_state.h"
#include "chief/job/epoch_runner.h"
#include "chief/job/metrics_log.h"
#include "common/run_report/run_summary.h"

namespace cohort::v1 {
class Manifest;
}

namespace cohort {

// The final report of a job for its user. The figures of the manifest and the journal cover the
// whole job. The other figures cover the time since this chief started, and the text names that
// period.
struct JobReport {
  // These cover the whole job.
  uint64_t epochs = 0;
  bool is_stream = false;  // windows are counted instead of epochs
  uint64_t steps = 0;
  uint64_t examples = 0;                // 0: unknown, because workers read independently
  uint64_t updates = 0;                 // the versions of these tablets, summed
  uint64_t tablets = 0;                 // tablets of the last checkpoint
  std::vector<MetricState> training;    // the last epoch; empty if another chief trained it
  std::vector<MetricState> validation;  // the last validation; empty if another chief ran it
  std::string checkpoint;               // the newest one
  std::string best_checkpoint;          // the best one with keep_best; "": none
  std::string best_text;                // "val_loss 0.3126, epoch 4"
  // The last step of a job that was finished before this chief started; nullopt: it was not
  // finished.
  std::optional<uint64_t> found_finished;

  std::string failed;  // why the job ended before its end; "": it is finished

  // These cover the time since this chief started.
  EpochRunner::Figures trained;
  CoordinatorState state;  // its lost tasks, rollbacks and chief restarts cover the whole job
  std::optional<double> first_step_seconds;  // since launch; unset for a continued job
  MetricsLog::Summary metrics_log;
  std::string page;  // path of the report as an HTML page; "": none

  // These are settings of the job.
  uint32_t steps_per_closure = 1;
  std::string shard_plan;

  // Fills the fields that `manifest`, the job's last one, contains.
  void ReadManifest(const v1::Manifest& manifest);
  // The lines of the report by name, without the metrics and the table of variables.
  using Lines = std::vector<std::pair<std::string, std::string>>;
  Lines Facts() const;
  // The same as data, with the metrics and the figures of each worker.
  RunSummary Summary() const;
  // Returns the report, of many lines. If metrics were lost, the last line is the reason.
  std::string Text() const;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_JOB_REPORT_H_
