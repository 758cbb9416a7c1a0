#ifndef COHORT_COMMON_MODEL_LAYERS_AXES_H_
#define COHORT_COMMON_MODEL_LAYERS_AXES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/graph/expr.h"
#include "common/graph/program.h"

namespace cohort {

struct Argument;

// Axes that a layer names, ascending and counted from 0; negative ones count from the end. Errors:
// InvalidArgument for an axis that the type lacks, for the batch, and for one that is named twice.
absl::StatusOr<std::vector<int64_t>> LayerAxes(std::span<const int64_t> given,
                                               const ValueType& type);

// The dims of `type` at these axes, and 1 at all others: those of a value that broadcasts.
std::vector<int64_t> BroadcastOver(std::span<const int64_t> axes, const ValueType& type);

// The order of `rank` axes with some of them last, and the one that restores the first order.
struct AxesLast {
  std::vector<int64_t> there, back;
};
AxesLast MoveLast(size_t rank, std::span<const int64_t> axes);

// The elements of an axis at these places, which may repeat. The gradient is one scatter, however
// many places there are: that of a slice is as large as x.
Expr GatherAt(Expr x, int64_t axis, std::span<const int64_t> places);

// Checks the rank of an input; `axes` names them: "[batch, steps, features]". Error:
// InvalidArgument.
absl::Status CheckAxes(const ValueType& type, size_t rank, std::string_view axes);

// Keras' `data_format`, of which only channels_last is supported.
Argument DataFormatArgument();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_AXES_H_
