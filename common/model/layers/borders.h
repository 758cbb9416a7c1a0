#ifndef COHORT_COMMON_MODEL_LAYERS_BORDERS_H_
#define COHORT_COMMON_MODEL_LAYERS_BORDERS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cohort {

// Keras' `padding` or `cropping` of 1 or 2 axes, whose lists are flattened, as (before, after) of
// each axis: n; of one axis [before, after]; of two axes [rows, columns], or
// [[top, bottom], [left, right]]. `name` is the argument. Errors: InvalidArgument.
absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> BordersOf(std::string_view name,
                                                                   std::span<const int64_t> given,
                                                                   size_t axes);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_BORDERS_H_
