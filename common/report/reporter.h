#ifndef COHORT_COMMON_REPORT_REPORTER_H_
#define COHORT_COMMON_REPORT_REPORTER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/report/event_file.h"

namespace cohort {

// The values of metrics at one moment of a job.
struct MetricsRecord {
  std::string set = "train";   // "train" or "validation"; also the subdirectory
  std::string kind = "epoch";  // "epoch", "step" or "checkpoint"
  uint64_t epoch = 0;          // from 1: the one that `step` belongs to; 0: before the first
  uint64_t step = 0;           // training steps done
  Scalars metrics;             // {"loss", 0.25}, {"accuracy", 0.9}
  Scalars figures;             // the cluster's: {"staleness/mean", 1.5}; their names are their tags
  double seconds = 0;          // duration; 0: unknown
  double steps_per_second = 0;
};

// True for the name of a key of the JSON lines that is no metric, such as "epoch" or
// "sync/dropped". A metric with this name would overwrite the key.
bool IsReportKey(std::string_view name);

// One line without its newline. A value that is not finite becomes null:
//
//   {"time": 1767225600.0, "set": "train", "kind": "epoch", "epoch": 1, "step": 200, "loss": 0.25}
std::string ToJsonLine(const MetricsRecord& record, int64_t unix_micros);

// Writes metrics to log_dir/metrics.jsonl, one line per record, and to TensorBoard event files in
// log_dir/train and log_dir/validation. The tags are Keras' names, such as epoch_loss; the axis is
// the step. Used by one thread at a time. Several processes may report to one log_dir.
class Reporter {
 public:
  // Creates the directory and metrics.jsonl. Errors: exit code 73 (74 on a full disk).
  static absl::StatusOr<std::unique_ptr<Reporter>> Open(const std::string& log_dir,
                                                        const Clock* clock);

  // Writes to both files even if one write fails, and returns the first error. Errors: exit code 74
  // (a full disk), 73 if an event file cannot be created. The same trouble has the same text each
  // time. Later calls may succeed.
  absl::Status Report(const MetricsRecord& record);

  const std::string& log_dir() const { return log_dir_; }

 private:
  Reporter(std::string log_dir, const Clock* clock, std::unique_ptr<AppendFile> lines);
  absl::Status AppendLine(const MetricsRecord& record);

  const std::string log_dir_;
  const Clock* const clock_;
  const std::unique_ptr<AppendFile> lines_;
  std::map<std::string, EventFileWriter> events_;  // by set, created on first use
};

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_REPORTER_H_
