#include "deploy/strategy/per_replica.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>

#include "common/base/status.h"

namespace cohort {
namespace {

// One value, or all its rows: `rows` times the elements of the result.
struct RowsOf {
  int64_t rows = 1;
  Dims element;
};

absl::StatusOr<RowsOf> SplitRows(const Tensor& value, std::optional<int> axis) {
  if (!axis.has_value()) return RowsOf{1, value.dims()};
  if (*axis != 0) return InvalidArgument("reduce: axis {}: only axis 0, or none, is folded", *axis);
  if (value.dims().empty()) return InvalidArgument("reduce: a scalar has no axis 0");
  return RowsOf{value.dims()[0], Dims(value.dims().begin() + 1, value.dims().end())};
}

template <typename T>
Tensor FoldRows(ReduceOp op, std::span<const Tensor> values, const Dims& element) {
  using Sum = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
  const auto width = static_cast<size_t>(NumElements(element));
  std::vector<Sum> sums(width);
  int64_t rows = 0;
  for (const Tensor& value : values) {
    const std::span<const T> elements = value.values<T>();
    for (size_t i = 0; i < elements.size(); ++i) sums[i % width] += static_cast<Sum>(elements[i]);
    rows += width == 0 ? 0 : static_cast<int64_t>(elements.size() / width);
  }
  Tensor result(DTypeOf<T>(), element);
  const auto divisor = op == ReduceOp::kMean ? static_cast<Sum>(rows) : Sum{1};
  std::ranges::transform(sums, result.mutable_values<T>().begin(),
                         [&](Sum sum) { return static_cast<T>(sum / divisor); });
  return result;
}

}  // namespace

absl::StatusOr<size_t> PerReplica::FindOutput(std::string_view name) const {
  static const std::vector<std::string> none;
  const std::vector<std::string>& names = outputs_ == nullptr ? none : *outputs_;
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<size_t>(found - names.begin());
  return InvalidArgument("the step has no output \"{}\"; it has: {}", name, fmt::join(names, ", "));
}

absl::StatusOr<Tensor> ReduceTensors(ReduceOp op, std::span<const Tensor> values,
                                     std::optional<int> axis) {
  if (values.empty()) return InvalidArgument("reduce: there are no values");
  const DType dtype = values[0].dtype();
  COHORT_ASSIGN_OR_RETURN(const RowsOf first, SplitRows(values[0], axis));
  int64_t rows = 0;
  for (const Tensor& value : values) {
    COHORT_ASSIGN_OR_RETURN(const RowsOf split, SplitRows(value, axis));
    rows += split.rows;
    if (split.element == first.element && value.dtype() == dtype) continue;
    return InvalidArgument("reduce: the replicas have values of different types: {} {} and {} {}",
                           DTypeName(dtype), DimsToString(values[0].dims()),
                           DTypeName(value.dtype()), DimsToString(value.dims()));
  }
  const bool mean = op == ReduceOp::kMean;
  if (mean && rows == 0) return InvalidArgument("reduce: a mean of no rows");
  if (mean && !IsFloating(dtype)) {
    return InvalidArgument("reduce: a mean of {} values: cast them to floats, or sum them",
                           DTypeName(dtype));
  }
  switch (dtype) {
    case DType::kFloat32:
      return FoldRows<float>(op, values, first.element);
    case DType::kFloat64:
      return FoldRows<double>(op, values, first.element);
    case DType::kInt32:
      return FoldRows<int32_t>(op, values, first.element);
    case DType::kInt64:
      return FoldRows<int64_t>(op, values, first.element);
    default:
      return InvalidArgument("reduce: {} values cannot be summed: cast them", DTypeName(dtype));
  }
}

}  // namespace cohort
