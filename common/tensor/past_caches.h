#ifndef COHORT_COMMON_TENSOR_PAST_CACHES_H_
#define COHORT_COMMON_TENSOR_PAST_CACHES_H_

#include <cstddef>

namespace cohort {

// A value of at least this many bytes is written past the caches. Little of it would be there when
// it is read, and a cache reads each line from memory before it is written.
inline constexpr size_t kPastCachesBytes = size_t{32} << 20;

// memcpy past the caches. The next reader finds the bytes in memory.
void CopyPastCaches(void* to, const void* from, size_t bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_TENSOR_PAST_CACHES_H_
