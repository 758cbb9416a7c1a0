#ifndef COHORT_COMMON_GRAPH_PULL_AHEAD_H_
#define COHORT_COMMON_GRAPH_PULL_AHEAD_H_

#include <cstdint>

namespace cohort {

// The most that `pull_ahead` may be: a worker pulls the values of a step at most this many of its
// own steps before the step runs. Each costs memory for the pulled values of one step.
inline constexpr uint32_t kMaxPullAhead = 16;

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_PULL_AHEAD_H_
