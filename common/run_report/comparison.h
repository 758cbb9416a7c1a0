#ifndef COHORT_COMMON_RUN_REPORT_COMPARISON_H_
#define COHORT_COMMON_RUN_REPORT_COMPARISON_H_

#include <span>
#include <string>

#include "common/run_report/run_record.h"

namespace cohort {

// Compares runs: the final and the best metrics, the speed and the time of each, and the
// hyper-parameters that differ. The names of the runs differ.

// For a terminal.
std::string ComparisonText(std::span<const RunRecord> runs);
// As one HTML page, with the curves of all runs in each chart.
std::string ComparisonPage(std::span<const RunRecord> runs);

}  // namespace cohort

#endif  // COHORT_COMMON_RUN_REPORT_COMPARISON_H_
