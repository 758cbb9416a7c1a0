#ifndef COHORT_COMMON_RUN_REPORT_RUN_RECORD_H_
#define COHORT_COMMON_RUN_REPORT_RUN_RECORD_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/run_report/line_chart.h"
#include "common/run_report/run_summary.h"

namespace cohort {

// One line of metrics.jsonl.
struct LoggedRecord {
  std::string set;   // "train", "validation"
  std::string kind;  // "step", "epoch", "checkpoint"
  uint64_t epoch = 0;
  uint64_t step = 0;
  double unix_seconds = 0;
  std::map<std::string, double> values;  // metrics and figures; NaN: it was not finite
};

// The final and the best value of a metric over the epochs of a run.
struct MetricOutcome {
  std::string set;
  std::string name;
  double last = 0;
  double best = 0;
  uint64_t best_epoch = 0;
};

// What the files of a run tell.
struct RunRecord {
  std::string name;                         // for people: the path that the user gave
  std::string job;                          // its name; "": unknown
  std::vector<LoggedRecord> records;        // in the order of the file
  uint64_t unreadable_lines = 0;            // such as a torn line of metrics.jsonl
  std::optional<RunSummary> summary;        // nullopt: the job has not ended
  std::string no_summary;                   // why there is none; "": there is one
  std::map<std::string, std::string> keys;  // hyper-parameters
  std::string job_file;

  // Returns a curve over the steps, by step or epoch.
  std::vector<ChartPoint> Curve(std::string_view set, std::string_view kind,
                                std::string_view value) const;
  // The names of the metrics of all records: the loss first, then by name.
  std::vector<std::string> MetricNames() const;
  bool LowerIsBetter(std::string_view metric) const;
  // By set, the training first.
  std::vector<MetricOutcome> Outcomes() const;
  uint64_t last_step() const;
  uint64_t last_epoch() const;
  // The time between the first and the last record.
  double logged_seconds() const;
  // The steps per second of the whole job: of its summary, or the mean over its epochs. 0: unknown.
  double steps_per_second() const;
};

// Reads the lines of metrics.jsonl. A record of the training whose step is below an earlier one
// follows a rollback or belongs to another job: it replaces what lies behind its step.
void ReadMetricLines(std::string_view lines, RunRecord* run);

// Reads the files of a log directory. Errors: NotFound if it has no metrics.jsonl.
absl::StatusOr<RunRecord> ReadRunRecord(const std::string& log_dir);

}  // namespace cohort

#endif  // COHORT_COMMON_RUN_REPORT_RUN_RECORD_H_
