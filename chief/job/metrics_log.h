#ifndef COHORT_CHIEF_JOB_METRICS_LOG_H_
#define COHORT_CHIEF_JOB_METRICS_LOG_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "chief/job/job_console.h"
#include "common/base/log.h"
#include "common/report/reporter.h"

namespace cohort {

// Stores the metrics of a job in its log directory. A lost record does not end the job: the console
// shows the first reason, the log has each different reason once, and training continues. One
// thread at a time may use it.
class MetricsLog {
 public:
  // The part of the final report.
  struct Summary {
    std::string directory;  // "" = metrics are not stored
    uint64_t records = 0;   // since this chief started
    uint64_t failed = 0;    // records that the directory lacks, at least in part
    std::string first_error;
  };

  MetricsLog(JobConsole* console, Logger* log) : console_(console), log_(log) {}

  // Errors: those of Reporter::Open.
  absl::Status Open(const std::string& directory, const Clock* clock);
  // Does nothing before Open.
  void Add(const MetricsRecord& record);
  const Summary& summary() const { return summary_; }

 private:
  JobConsole* const console_;
  Logger* const log_;
  std::unique_ptr<Reporter> reporter_;
  std::set<std::string> logged_errors_;
  Summary summary_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_METRICS_LOG_H_
