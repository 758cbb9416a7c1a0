#include "common/data/feature_type.h"

#include "common/base/status.h"

namespace cohort {

absl::Status CheckColumnType(DType dtype, const Dims& dims) {
  // More than any record; products below it do not overflow.
  constexpr int64_t kMaxElements = int64_t{1} << 32;
  if (SizeOf(dtype) == 0) return InvalidArgument("a column has no dtype");
  int64_t elements = 1;
  for (const int64_t size : dims) {
    if (size < 1 || size > kMaxElements / elements) {
      return InvalidArgument("a column cannot have the shape {}", DimsToString(dims));
    }
    elements *= size;
  }
  return absl::OkStatus();
}

}  // namespace cohort
