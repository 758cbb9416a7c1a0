#include "chief/job/metrics_log.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

absl::Status MetricsLog::Open(const std::string& directory, const Clock* clock) {
  COHORT_ASSIGN_OR_RETURN(reporter_, Reporter::Open(directory, clock));
  summary_.directory = directory;
  return absl::OkStatus();
}

void MetricsLog::Add(const MetricsRecord& record) {
  if (reporter_ == nullptr) return;
  ++summary_.records;
  const absl::Status status = reporter_->Report(record);
  if (status.ok()) return;
  const std::string why(status.message());
  if (logged_errors_.insert(why).second) {
    log_->Failure(LogLevel::kWarning, "report_failed", status);
  }
  if (summary_.failed++ > 0) return;
  summary_.first_error = why;
  console_->Print(
      fmt::format("warning: metrics are not stored: {}; training continues without them", why));
}

}  // namespace cohort
