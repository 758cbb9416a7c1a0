#include <algorithm>

#include "common/graph/ops/families.h"

namespace cohort::ops {

absl::Status CheckFloating(const InferContext& context, size_t input) {
  const ValueType& type = context.input(input);
  if (IsFloating(type.dtype)) return absl::OkStatus();
  return InvalidArgument("input {} must be float32 or float64, not {}", input, TypeToString(type));
}

absl::Status CheckDType(const InferContext& context, size_t input, DType dtype) {
  const ValueType& type = context.input(input);
  if (type.dtype == dtype) return absl::OkStatus();
  return InvalidArgument("input {} must be {}, not {}", input, DTypeName(dtype),
                         TypeToString(type));
}

absl::Status CheckSameDType(const InferContext& context, size_t a, size_t b) {
  if (context.input(a).dtype == context.input(b).dtype) return absl::OkStatus();
  return InvalidArgument("inputs {} and {} have different dtypes: {} and {}", a, b,
                         TypeToString(context.input(a)), TypeToString(context.input(b)));
}

absl::Status CheckRank(const InferContext& context, size_t input, size_t rank) {
  const ValueType& type = context.input(input);
  if (type.dims.size() == rank) return absl::OkStatus();
  return InvalidArgument("input {} must have {} axes, not {}", input, rank, TypeToString(type));
}

absl::Status CheckAxis(const InferContext& context, size_t input, int64_t axis) {
  const ValueType& type = context.input(input);
  if (axis >= 0 && axis < static_cast<int64_t>(type.dims.size())) return absl::OkStatus();
  return InvalidArgument("axis {} is not one of {}", axis, TypeToString(type));
}

absl::Status CheckLastAxisStatic(const InferContext& context, size_t input) {
  const ValueType& type = context.input(input);
  if (!type.dims.empty() && !type.dims.back().bounded()) return absl::OkStatus();
  return InvalidArgument("input {} must have a static last axis, not {}", input,
                         TypeToString(type));
}

absl::StatusOr<std::vector<Dim>> BroadcastDims(const ValueType& a, const ValueType& b) {
  const Dim one{1, 0};
  const size_t rank = std::max(a.dims.size(), b.dims.size());
  std::vector<Dim> dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    const size_t from_end = rank - i;
    const Dim& x = from_end > a.dims.size() ? one : a.dims[a.dims.size() - from_end];
    const Dim& y = from_end > b.dims.size() ? one : b.dims[b.dims.size() - from_end];
    if (x != y && x != one && y != one) {
      return InvalidArgument("{} and {} do not broadcast", TypeToString(a), TypeToString(b));
    }
    dims[i] = x == one ? y : x;
  }
  return dims;
}

absl::StatusOr<Types> InferSameFloating(const InferContext& context) {
  COHORT_RETURN_IF_ERROR(CheckFloating(context, 0));
  return Types{context.input(0)};
}

double NoFlops(const Program&, const Node&) { return 0; }

double FlopsPerInput(const Program& program, const Node& node) {
  return static_cast<double>(CapacityElements(program.type(node.inputs[0])));
}

}  // namespace cohort::ops
