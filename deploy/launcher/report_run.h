#ifndef COHORT_DEPLOY_LAUNCHER_REPORT_RUN_H_
#define COHORT_DEPLOY_LAUNCHER_REPORT_RUN_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/run_report/run_record.h"

namespace cohort {

// The flags of `cohort report`.
struct ReportOptions {
  std::string run;   // a path for ReadRun
  std::string html;  // path of the page; "": print the report
};

// The flags of `cohort compare`.
struct CompareOptions {
  std::vector<std::string> runs;
  std::string html;
};

// Reads what the files of a run tell. `path` is the run directory of `cohort local` or `cohort
// train`, a log directory (metrics.jsonl), or a checkpoint directory. If the job has not ended, the
// hyper-parameters are those of the newest checkpoint. Without metrics.jsonl the curves are the
// history of the newest checkpoint, which jobs with callbacks have. Errors: NotFound if there is
// neither; those of reading the files.
absl::StatusOr<RunRecord> ReadRun(const std::string& path);

// Runs `cohort report`. Returns the text to print: the report, or where the page is. Errors: those
// of ReadRun; exit 73 if the page cannot be written.
absl::StatusOr<std::string> ReportRun(const ReportOptions& options);

// Runs `cohort compare`. Errors: as above; exit 64 for fewer than two runs.
absl::StatusOr<std::string> CompareRuns(const CompareOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_REPORT_RUN_H_
