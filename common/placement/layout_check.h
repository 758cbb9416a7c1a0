#ifndef COHORT_COMMON_PLACEMENT_LAYOUT_CHECK_H_
#define COHORT_COMMON_PLACEMENT_LAYOUT_CHECK_H_

#include <absl/status/status.h>

#include <cstdint>

namespace cohort::v1 {
class Layout;
}

namespace cohort {

// Whether a layout as a whole makes sense: every tablet and every shard is there once, a shard is
// of a variable and on a tablet that are there, and the shards of a variable hold each of its rows
// once. Errors: InvalidArgument "layout: ...".
absl::Status CheckLayout(const v1::Layout& layout);

// The bytes that server `ps` holds under a layout that CheckLayout passed: its shards, and `slots`
// tensors of the same size beside each trainable one. A double, which no product overflows.
double BytesOfServer(const v1::Layout& layout, uint32_t ps, size_t slots);

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_LAYOUT_CHECK_H_
