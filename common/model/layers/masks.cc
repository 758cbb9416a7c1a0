#include "common/model/layers/masks.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/regularizers.h"

namespace cohort {
namespace {

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

// Finds which arguments of `call` the inputs are.
absl::StatusOr<std::vector<std::string>> InputNames(const LayerClass& layer_class,
                                                    const LayerContext& context) {
  const Config& config = context.config;
  const size_t count = context.inputs.size();
  std::vector<std::string> names;
  if (layer_class.call.empty()) return names;
  if (config.Has("input_names")) {
    names = config.Strings("input_names");
    for (const std::string& name : names) {
      if (std::ranges::count(layer_class.call, name) == 0 || std::ranges::count(names, name) > 1) {
        return InvalidArgument("input_names has \"{}\", but inputs are {}", name,
                               fmt::join(layer_class.call, ", "));
      }
    }
    if (names.size() == count) return names;
    return InvalidArgument("it has {} inputs, and {} input_names", count, names.size());
  }
  for (const std::string& name : layer_class.call) {
    if (names.size() < count && !config.Has(name)) names.push_back(name);
  }
  if (layer_class.max_inputs > layer_class.call.size())
    names.resize(count, layer_class.call.back());
  if (names.size() == count) return names;
  return InvalidArgument("it has {} inputs and numbers, but its arguments are {}",
                         count + layer_class.call.size() - names.size(),
                         fmt::join(layer_class.call, ", "));
}

}  // namespace

absl::StatusOr<LayerOutput> BuildLayer(const LayerClass& layer_class, LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(context->input_names, InputNames(layer_class, *context));
  COHORT_ASSIGN_OR_RETURN(LayerOutput output, layer_class.build(context));
  if (context->config.Has("activity_regularizer")) {
    COHORT_RETURN_IF_ERROR(
        AddActivityPenalty(context, context->config.Object("activity_regularizer"), output.value));
  }
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
  return LogicalNot(Equal(x, x.builder()->Scalar(value, x.dtype())));
}

Expr AsMask(Expr x) { return !x.valid() || x.dtype() == DType::kBool ? x : NotEqual(x, 0); }

Expr EitherMask(Expr a, Expr b) { return LogicalOr(a, b); }

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
