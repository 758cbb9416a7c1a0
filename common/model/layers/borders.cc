#include "common/model/layers/borders.h"

#include "common/base/status.h"
#include "common/graph/expr.h"
#include "common/tensor/tensor.h"

namespace cohort {
namespace {

// `count` zeros along the axis, in the shape of x otherwise.
Expr ZerosBeside(Expr x, int64_t axis, int64_t count) {
  const Expr zero = x.builder()->Scalar(0, x.dtype());
  std::vector<int64_t> dims(x.rank() - static_cast<size_t>(axis), 1);
  dims[0] = count;
  return BroadcastLike(zero, Slice(x, axis, 0, 1)) +
         x.builder()->Constant(Tensor::Zeros(x.dtype(), dims));
}

}  // namespace

Expr PadZeros(Expr x, int64_t axis, int64_t before, int64_t after) {
  if (!x.valid() || before + after == 0) return x;
  std::vector<Expr> parts;
  if (before > 0) parts.push_back(ZerosBeside(x, axis, before));
  parts.push_back(x);
  if (after > 0) parts.push_back(ZerosBeside(x, axis, after));
  return Concat(parts, axis);
}

absl::StatusOr<std::vector<std::pair<int64_t, int64_t>>> BordersOf(std::string_view name,
                                                                   std::span<const int64_t> given,
                                                                   size_t axes) {
  std::vector<std::pair<int64_t, int64_t>> borders;
  for (size_t i = 0; i < axes; ++i) {
    if (given.size() == 1) {
      borders.emplace_back(given[0], given[0]);
    } else if (given.size() == 2 * axes) {
      borders.emplace_back(given[2 * i], given[2 * i + 1]);
    } else if (given.size() == axes) {
      borders.emplace_back(given[i], given[i]);
    } else {
      return InvalidArgument("{} must be one number, or two{}, not {}", name,
                             axes == 1   ? ""
                             : axes == 2 ? ", or two pairs"
                                         : " or three, or three pairs",
                             DimsToString(given));
    }
  }
  return borders;
}

}  // namespace cohort
