#ifndef COHORT_COMMON_PLACEMENT_LAYOUT_CHECK_H_
#define COHORT_COMMON_PLACEMENT_LAYOUT_CHECK_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstdint>

namespace cohort::v1 {
class Layout;
class VariableSpec;
}  // namespace cohort::v1

namespace cohort {

// Checks that a layout is consistent: every tablet and every shard occurs once, the variable and
// the tablet of each shard exist, and the shards of a variable hold each of its rows once. Errors:
// InvalidArgument "layout: ...".
absl::Status CheckLayout(const v1::Layout& layout);

// Returns the bytes that server `ps` holds under a layout that passed CheckLayout: the rows of its
// shards, each of `row_bytes`(variable) with its slots. A double, because no product can overflow
// it.
double BytesOfServer(const v1::Layout& layout, uint32_t ps,
                     absl::FunctionRef<size_t(const v1::VariableSpec&)> row_bytes);

}  // namespace cohort

#endif  // COHORT_COMMON_PLACEMENT_LAYOUT_CHECK_H_
