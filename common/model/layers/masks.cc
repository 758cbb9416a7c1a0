#include "common/model/layers/masks.h"

#include <algorithm>

#include "common/graph/expr.h"

namespace cohort {
namespace {

Expr Floats(Expr mask) { return Cast(mask, DType::kFloat32); }

// The mask of a layer whose inputs are merged (keras/src/layers/merging/base_merge.py): none if an
// input has none.
Expr MergedMask(std::span<const LayerOutput> inputs) {
  Expr mask;
  for (const LayerOutput& input : inputs) {
    if (!input.mask.valid()) return {};
    mask = mask.valid() ? EitherMask(mask, input.mask) : input.mask;
  }
  return mask;
}

}  // namespace

absl::StatusOr<LayerOutput> BuildLayer(const LayerClass& layer_class, LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(LayerOutput output, layer_class.build(context));
  switch (layer_class.mask) {
    case MaskRule::kDrop:
      output.mask = {};
      break;
    case MaskRule::kPass:
      output.mask = context->inputs.empty() ? Expr() : context->inputs[0].mask;
      break;
    case MaskRule::kMerge:
      output.mask = MergedMask(context->inputs);
      break;
    case MaskRule::kOwn:
      break;
  }
  return output;
}

Expr NotEqual(Expr x, double value) {
  if (!x.valid()) return {};
  const Expr equal = Equal(x, x.builder()->Scalar(value, x.dtype()));
  return Less(Floats(equal), x.builder()->Scalar(0.5, DType::kFloat32));
}

Expr EitherMask(Expr a, Expr b) {
  if (!a.valid() || !b.valid()) return {};
  return Greater(Floats(a) + Floats(b), a.builder()->Scalar(0.5, DType::kFloat32));
}

Expr MaskOver(Expr mask, size_t rank) {
  if (!mask.valid() || mask.rank() == rank) return mask;
  std::vector<int64_t> dims = ReshapeDims(mask.type().dims);
  dims.resize(rank, 1);
  return Reshape(mask, std::move(dims));
}

Expr WithoutMasked(Expr x, Expr mask) {
  if (!x.valid() || !mask.valid()) return x;
  return Select(MaskOver(mask, x.rank()), x, x.builder()->Scalar(0, x.dtype()));
}

absl::Status CheckMask(Expr mask, const ValueType& type) {
  const ValueType m = mask.type();
  if (m.dtype == DType::kBool && m.dims.size() <= type.dims.size() &&
      std::equal(m.dims.begin(), m.dims.end(), type.dims.begin())) {
    return absl::OkStatus();
  }
  return InvalidArgument("the mask {} does not have the first axes of {}", TypeToString(m),
                         TypeToString(type));
}

}  // namespace cohort
