#ifndef COHORT_COMMON_COLLECTIVE_ADD_ELEMENTS_H_
#define COHORT_COMMON_COLLECTIVE_ADD_ELEMENTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/dtype.h"

namespace cohort {

// sum[i] += values[i] for `count` elements of float32 or float64, with the widest vectors that the
// processor has. Each addition rounds once. `values` has no alignment.
void AddElements(DType dtype, uint8_t* sum, const uint8_t* values, size_t count);

// The same for values that lie in pieces, such as the slices of a received frame, one after
// another. An element may cross pieces.
void AddPieces(DType dtype, uint8_t* sum, std::span<const std::span<const uint8_t>> pieces);

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_ADD_ELEMENTS_H_
