#ifndef COHORT_COMMON_GRAPH_HOT_ROWS_H_
#define COHORT_COMMON_GRAPH_HOT_ROWS_H_

#include <cstdint>

#include "common/graph/program.h"

namespace cohort {

// The bounds of `strategy.hot_rows`: a worker keeps at most this many rows of a variable, and reads
// a copy for at most this many of its steps. They become the attributes `kept_rows` and `max_age`
// of `read_rows` (common/exchange/hot_rows.h).
inline constexpr int64_t kMaxHotRows = 100'000'000;
inline constexpr int64_t kMaxHotRowSteps = 10'000;

// Lets whoever runs the program read rows from copies of its own: at most `rows` of each variable,
// each for `steps` steps.
void AllowHotRows(int64_t steps, int64_t rows, Program* program);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_HOT_ROWS_H_
