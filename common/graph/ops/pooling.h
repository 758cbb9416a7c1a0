#ifndef COHORT_COMMON_GRAPH_OPS_POOLING_H_
#define COHORT_COMMON_GRAPH_OPS_POOLING_H_

#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>

#include "common/graph/program.h"

namespace cohort::ops {

// The windows of a pooling op along one axis of its input. Sizes and padding are TensorFlow's:
//   valid: no padding; the last elements that fill no whole window are left out.
//   same:  ceil(in / stride) windows. Padding completes the first and the last of them; if its size
//          is odd, the end has one element more than the start.
struct PoolAxis {
  int64_t in = 0;      // elements of the input
  int64_t out = 0;     // windows
  int64_t window = 0;  // elements of a window, with padding
  int64_t stride = 0;  // elements between the starts of two windows
  int64_t before = 0;  // padding in front of the first element

  // Window `o` covers the elements [begin(o), end(o)) of the input, which are one or more.
  int64_t begin(int64_t o) const { return std::max<int64_t>(o * stride - before, 0); }
  int64_t end(int64_t o) const { return std::min(o * stride - before + window, in); }
};

// Reads entry `axis` of the attributes `window` and `strides`, and `padding`, for an input axis of
// `in` elements (1 or more). Errors: InvalidArgument that names the attribute.
absl::StatusOr<PoolAxis> MakePoolAxis(const Node& node, size_t axis, int64_t in);

}  // namespace cohort::ops

#endif  // COHORT_COMMON_GRAPH_OPS_POOLING_H_
