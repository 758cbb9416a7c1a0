#ifndef COHORT_COMMON_DATA_LIST_PADDING_H_
#define COHORT_COMMON_DATA_LIST_PADDING_H_

#include <cstdint>
#include <limits>

namespace cohort {

// What stands behind the end of a list if lists have different lengths: batches have all of them at
// the greatest length. A number of a file that equals it counts as none. Both are exact as double.
inline constexpr int64_t kNoId = std::numeric_limits<int64_t>::min();
inline constexpr double kNoWeight = std::numeric_limits<float>::lowest();

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_LIST_PADDING_H_
