#include "common/model/layers/axes.h"

#include <algorithm>
#include <numeric>

#include "common/base/status.h"
#include "common/model/layers/layer.h"

namespace cohort {

absl::StatusOr<std::vector<int64_t>> LayerAxes(std::span<const int64_t> given,
                                               const ValueType& type) {
  const auto rank = static_cast<int64_t>(type.dims.size());
  std::vector<int64_t> axes;
  for (const int64_t axis : given) {
    axes.push_back(axis < 0 ? axis + rank : axis);
    if (axes.back() < 1 || axes.back() >= rank) {
      return InvalidArgument("axis {} is not one of {} (axis 0 is the batch)", axis,
                             TypeToString(type));
    }
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) == axes.end()) return axes;
  return InvalidArgument("an axis is named twice in {}", DimsToString(given));
}

std::vector<int64_t> BroadcastOver(std::span<const int64_t> axes, const ValueType& type) {
  std::vector<int64_t> dims(type.dims.size(), 1);
  for (const int64_t axis : axes) {
    dims[static_cast<size_t>(axis)] = type.dims[static_cast<size_t>(axis)].size;
  }
  return dims;
}

AxesLast MoveLast(size_t rank, std::span<const int64_t> axes) {
  AxesLast order;
  for (int64_t i = 0; i < static_cast<int64_t>(rank); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) order.there.push_back(i);
  }
  order.there.insert(order.there.end(), axes.begin(), axes.end());
  order.back.resize(rank);
  for (size_t i = 0; i < rank; ++i) {
    order.back[static_cast<size_t>(order.there[i])] = static_cast<int64_t>(i);
  }
  return order;
}

Expr GatherAt(Expr x, int64_t axis, std::span<const int64_t> places) {
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[0], perm[static_cast<size_t>(axis)]);
  Tensor index(DType::kInt64, {static_cast<int64_t>(places.size())});
  std::ranges::copy(places, index.mutable_values<int64_t>().begin());
  const DType dtype = x.dtype();
  const Expr rows = Transpose(IsFloating(dtype) ? x : Cast(x, DType::kFloat64), perm);
  return Cast(Transpose(Gather(rows, x.builder()->Constant(index)), perm), dtype);
}

absl::Status CheckAxes(const ValueType& type, size_t rank, std::string_view axes) {
  if (type.dims.size() == rank) return absl::OkStatus();
  return InvalidArgument("the input must be {}, and is {}", axes, TypeToString(type));
}

Argument DataFormatArgument() {
  return String("data_format", "Order of the axes; channels_first is not supported: use Permute.")
      .Default("channels_last")
      .OneOf({"channels_last"});
}

}  // namespace cohort
