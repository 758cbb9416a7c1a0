#ifndef COHORT_CHIEF_JOB_ROW_REPORT_H_
#define COHORT_CHIEF_JOB_ROW_REPORT_H_

#include <string>

#include "chief/core/core_state.h"
#include "common/row_figures/row_figures.h"

namespace cohort {

// What the servers have told with their last Pongs about variables that steps read by rows.
ClusterRowFigures RowFiguresOf(const CoreState& state);

// For people: "12000 pulled, 11000 pushed; by server 84 %, 16 %: skew 1.68".
std::string RowsLine(const ClusterRowFigures& figures);
// A table with a line for each variable. Ends with a newline.
std::string RowsTable(const ClusterRowFigures& figures);

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_ROW_REPORT_H_
