#ifndef COHORT_COMMON_RUN_REPORT_RUN_PAGE_H_
#define COHORT_COMMON_RUN_REPORT_RUN_PAGE_H_

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "common/run_report/run_record.h"

namespace cohort {

// Returns the report of a run as one HTML page: curves, workers, ROC and confusion matrices,
// hyper-parameters and environment. The page says what the files of the run lack.
std::string RunPage(const RunRecord& run);

// The same for a terminal, without the curves.
std::string RunText(const RunRecord& run);

// Returns what the page cannot show, one sentence each, with what the user can do.
std::vector<std::string> MissingFrom(const RunRecord& run);

// Writes the page of the run whose files are in `log_dir` to log_dir/report.html. Errors: those of
// ReadRunRecord and of the file.
absl::Status WriteRunPage(const std::string& log_dir);

}  // namespace cohort

#endif  // COHORT_COMMON_RUN_REPORT_RUN_PAGE_H_
