#include "common/model/losses/sample_weight.h"

#include <vector>

#include "common/base/status.h"
#include "common/model/layers/layer.h"

namespace cohort {

absl::StatusOr<Expr> AlignWeight(Expr weight, const ValueType& type) {
  const ValueType given = weight.type();
  std::vector<Dim> dims = given.dims;
  while (dims.size() > 1 && dims.back() == Dim{1, 0}) dims.pop_back();
  bool fits = dims.size() <= type.dims.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    fits = dims[i] == type.dims[i] || (i > 0 && dims[i] == Dim{1, 0});
  }
  if (!fits) {
    return InvalidArgument(
        "the sample weight is {}, and what it weighs is {}: it must have the same axes, or leave "
        "out "
        "the last ones",
        TypeToString(given), TypeToString(type));
  }
  dims.resize(type.dims.size(), Dim{1, 0});
  const Expr cast = Cast(weight, type.dtype);
  return dims == given.dims ? cast : Reshape(cast, ReshapeDims(dims));
}

absl::StatusOr<Expr> WeightByClass(const std::map<int64_t, double>& weights, Expr label,
                                   DType dtype) {
  if (!label.valid()) return Expr();
  const ValueType type = label.type();
  if (type.dims.size() > 2) {
    return InvalidArgument("class_weight needs one label for each record, and the label is {}",
                           TypeToString(type));
  }
  Expr number = Cast(label, dtype);
  if (type.dims.size() == 2 && type.dims[1].size == 1) {
    number = Round(Reshape(number, ReshapeDims(std::span<const Dim>(type.dims).first(1))));
  } else if (type.dims.size() == 2) {
    number = Cast(ArgMax(number), dtype);
  } else {
    number = Round(number);
  }
  // The last entry stands for all labels that have no weight.
  const int64_t most = weights.empty() ? 0 : weights.rbegin()->first;
  std::vector<double> table(static_cast<size_t>(most) + 2, 1.0);
  for (const auto& [of, weight] : weights) table[static_cast<size_t>(of)] = weight;
  ProgramBuilder* const b = label.builder();
  const Expr last = b->Scalar(static_cast<double>(most) + 1, dtype);
  const Expr known = LogicalAnd(GreaterEqual(number, b->Scalar(0, dtype)), Greater(last, number));
  const Expr index = Cast(Select(known, number, last), DType::kInt64);
  const Tensor values = Tensor::FromValues<double>({most + 2}, std::span<const double>(table));
  return Gather(Cast(b->Constant(values), dtype), index);
}

}  // namespace cohort
