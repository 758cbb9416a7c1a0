#ifndef COHORT_COMMON_REPORT_REPORTER_H_
#define COHORT_COMMON_REPORT_REPORTER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/report/event_file.h"

namespace cohort {

// What metrics have come to at one moment of a job.
struct MetricsRecord {
  std::string set = "train";   // "train" or "validation": names the subdirectory too
  std::string kind = "epoch";  // "epoch", "step" or "checkpoint"
  uint64_t epoch = 0;          // from 1: the one that `step` belongs to; 0: before the first
  uint64_t step = 0;           // training steps done
  Scalars metrics;             // {"loss", 0.25}, {"accuracy", 0.9}
  double seconds = 0;          // that it took; 0: unknown
  double steps_per_second = 0;
};

// {"time": 1767225600.0, "set": "train", "kind": "epoch", "epoch": 1, "step": 200, "loss": 0.25,
// ...} on one line without its newline. A figure that is not finite is null.
std::string ToJsonLine(const MetricsRecord& record, int64_t unix_micros);

// Writes metrics where people look for them: log_dir/metrics.jsonl, one line per record, and
// TensorBoard event files in log_dir/train and log_dir/validation with tags such as epoch_loss
// (Keras' names; the axis is the step). One thread at a time; several processes may report into one
// log_dir.
class Reporter {
 public:
  // Makes the directory and metrics.jsonl. Errors: exit 73 (74 for want of room).
  static absl::StatusOr<std::unique_ptr<Reporter>> Open(const std::string& log_dir,
                                                        const Clock* clock);

  // Errors: exit 74 (a full disk), 73 where an event file cannot be made: of the same trouble in
  // the same words. The one file is written even where the other is not, and what follows may be
  // reported again.
  absl::Status Report(const MetricsRecord& record);

  const std::string& log_dir() const { return log_dir_; }

 private:
  Reporter(std::string log_dir, const Clock* clock, std::unique_ptr<AppendFile> lines);
  absl::Status AppendLine(const MetricsRecord& record);

  const std::string log_dir_;
  const Clock* const clock_;
  const std::unique_ptr<AppendFile> lines_;
  std::map<std::string, EventFileWriter> events_;  // by set, made on first use
};

}  // namespace cohort

#endif  // COHORT_COMMON_REPORT_REPORTER_H_
