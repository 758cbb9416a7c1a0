#ifndef COHORT_COMMON_RUN_REPORT_RUN_SUMMARY_H_
#define COHORT_COMMON_RUN_REPORT_RUN_SUMMARY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/metrics/metric_state.h"

namespace cohort {

// The names of the files in the log directory.
inline constexpr char kMetricsName[] = "metrics.jsonl";
inline constexpr char kSummaryName[] = "report.json";
inline constexpr char kPageName[] = "report.html";

// A metric whose accumulator has this name shows the counts by label and prediction, row by row.
inline constexpr char kConfusionMatrix[] = "confusion_matrix";

// What the chief knows at the end of a job and no other file of the run holds: the final report in
// a form for programs, log_dir/report.json:
//
//   {"format": 1, "job": "recommender", "outcome": "finished", "unix_seconds": 1767225600.0,
//    "facts": {"steps": "800 in all, 4 epochs"}, "training_seconds": 2.5, "steps": 800,
//    "steps_per_second": 320.0,
//    "workers": [{"name": "worker:0", "steps": 400, "mean_staleness": 0.5, "received_bytes": 1}],
//    "metrics": {"train": [{"name": "loss", "value": 0.25}], "validation": [...]},
//    "lower_is_better": ["loss"], "environment": {...}, "keys": {...}, "job_file": "name: ...",
//    "text": "the final report as it was printed"}
//
// AUC also has "true_positives" and "false_positives" by threshold; a metric with a confusion
// matrix has it as "confusion".
struct RunSummary {
  struct Worker {
    std::string name;  // "worker:0"
    uint64_t steps = 0;
    double mean_staleness = 0;
    uint64_t sent_bytes = 0;
    uint64_t received_bytes = 0;
  };
  struct Metric {
    std::string name;
    double value = 0;
    std::vector<double> true_positives;  // by threshold, from the lowest
    std::vector<double> false_positives;
    std::vector<double> confusion;
  };
  using Texts = std::vector<std::pair<std::string, std::string>>;

  std::string job;
  std::string outcome;  // "finished"
  double unix_seconds = 0;
  uint64_t steps = 0;
  double training_seconds = 0;  // since the last start of the chief, as the next two
  double steps_per_second = 0;
  std::vector<Worker> workers;
  Texts facts;                                         // the lines of the final report
  std::map<std::string, std::vector<Metric>> metrics;  // "train", "validation"
  std::vector<std::string> lower_is_better;            // names of metrics
  Texts environment;
  std::map<std::string, std::string> keys;  // the hyper-parameters: model.layers[1].units, 16
  std::string job_file;                     // as the user wrote it
  std::string text;

  std::string ToJson() const;
  // Errors: InvalidArgument if `json` is not what ToJson returns. Unknown keys are ignored.
  static absl::StatusOr<RunSummary> FromJson(std::string_view json);
};

// Returns the part of a metric that a report draws.
RunSummary::Metric SummaryOf(const MetricState& metric);

// Returns what this process knows of its program and machine: versions, host, processors.
RunSummary::Texts EnvironmentOfProcess();

}  // namespace cohort

#endif  // COHORT_COMMON_RUN_REPORT_RUN_SUMMARY_H_
