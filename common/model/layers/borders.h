#ifndef COHORT_COMMON_MODEL_LAYERS_BORDERS_H_
#define COHORT_COMMON_MODEL_LAYERS_BORDERS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/graph/expr.h"

namespace cohort {

// Keras' `padding` or `cropping` of 1 to 3 axes, whose lists are flattened, as (before, after) of
// each axis: n; of one axis [before, after]; of several axes a number or a pair for each:
// [rows, columns], or [[top, bottom], [left, right]]. `name` is the argument. Errors:
// InvalidArgument.
absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> BordersOf(std::string_view name,
                                                                   std::span<const int64_t> given,
                                                                   size_t axes);

// Zeros before and after the elements of an axis of x; x itself without any.
Expr PadZeros(Expr x, int64_t axis, int64_t before, int64_t after);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_BORDERS_H_
