#ifndef COHORT_COMMON_PLACEMENT_ORTHOGONAL_H_
#define COHORT_COMMON_PLACEMENT_ORTHOGONAL_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

namespace cohort {

// Each shard of an orthogonal variable computes the whole matrix, so its work is limited: about ten
// seconds. Error: InvalidArgument with the size that is allowed.
absl::Status CheckOrthogonalSize(uint64_t rows, uint64_t columns);

// Computes `gain` times the orthogonal factor Q of the matrix of these normal numbers (row-major,
// with the longer side as its rows), with a positive diagonal of R, as Keras' Orthogonal;
// transposed if there are fewer rows than columns. Element (row, column) is at row * columns +
// column. Errors: those of CheckOrthogonalSize.
absl::StatusOr<std::vector<double>> OrthogonalMatrix(uint64_t rows, uint64_t columns, double gain,
                                                     absl::FunctionRef<double(uint64_t)> normal);

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_ORTHOGONAL_H_
