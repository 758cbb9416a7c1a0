#ifndef COHORT_COMMON_KERNELS_PACKED_COLUMNS_H_
#define COHORT_COMMON_KERNELS_PACKED_COLUMNS_H_

#include <cstdint>

namespace cohort {

// Columns of a matrix that are packed side by side, row by row (product_tile-inl.h): at least those
// of a tile, for every instruction set.
inline constexpr int64_t kPackedColumns = 64;

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_PACKED_COLUMNS_H_
