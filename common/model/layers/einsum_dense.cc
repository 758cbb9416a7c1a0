// EinsumDense (keras/src/layers/core/einsum_dense.py).
#include <algorithm>

#include "common/graph/expr.h"
#include "common/model/activations.h"
#include "common/model/einsum.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {
namespace {

// "abc,cd->abd", without an ellipsis, which is before or after the axes of input and result.
struct EinsumParts {
  std::string input, kernel, output;
  bool left_ellipsis = false, right_ellipsis = false;
};

absl::StatusOr<EinsumParts> SplitEquation(std::string equation) {
  const auto invalid = [&equation] {
    return InvalidArgument(
        "equation \"{}\" is not of the form \"ab,bc->ac\", \"...b,bc->...c\" or "
        "\"ab...,bc->ac...\"",
        equation);
  };
  std::string text = equation;
  std::erase(text, ' ');
  const size_t comma = text.find(','), arrow = text.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return invalid();
  EinsumParts parts{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1),
                    text.substr(arrow + 2)};
  parts.left_ellipsis = parts.input.starts_with("...") && parts.output.starts_with("...");
  parts.right_ellipsis = parts.input.ends_with("...") && parts.output.ends_with("...");
  for (std::string* const part : {&parts.input, &parts.output}) {
    if (parts.left_ellipsis) part->erase(0, 3);
    if (!parts.left_ellipsis && parts.right_ellipsis) part->resize(part->size() - 3);
  }
  for (const std::string* const part : {&parts.input, &parts.kernel, &parts.output}) {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    if (part->empty() || !std::ranges::all_of(*part, is_letter)) return invalid();
  }
  return parts;
}

// The sizes of the axes that have letters, and the shape of the kernel by them.
struct EinsumShapes {
  std::vector<int64_t> kernel, bias;
  int64_t inputs = 1, outputs = 1;  // the fans of the kernel
};

absl::StatusOr<EinsumShapes> ShapesOf(const EinsumParts& parts, const ValueType& type,
                                      std::vector<int64_t> result, const std::string& bias_axes) {
  const size_t rank = type.dims.size();
  const size_t elided = rank - std::min(rank, parts.input.size());
  if (rank < parts.input.size() || (elided > 0 && !parts.left_ellipsis && !parts.right_ellipsis)) {
    return InvalidArgument("the equation is for {} axes, and the input is {}", parts.input.size(),
                           TypeToString(type));
  }
  const auto size_at = [&](size_t axis) {
    return type.dims[axis].bounded() ? int64_t{-1} : type.dims[axis].size;
  };
  // The axes of the result: the batch, elided ones, those that output_shape has.
  result.insert(result.begin(), size_at(0));
  if (parts.left_ellipsis) {
    for (size_t i = 1; i < elided; ++i) {
      result.insert(result.begin() + static_cast<int64_t>(i), size_at(i));
    }
  }
  const size_t before_input = parts.left_ellipsis ? elided : 0;
  const auto input_size = [&](char label) {
    return size_at(before_input + parts.input.find(label));
  };
  const size_t before_output = parts.left_ellipsis ? elided : 0;
  if (result.size() < before_output + parts.output.size()) {
    return InvalidArgument("output_shape needs {} numbers without the batch",
                           before_output + parts.output.size() - std::max<size_t>(elided, 1));
  }
  const auto output_size = [&](char label) {
    const int64_t given = result[before_output + parts.output.find(label)];
    return given < 0 && parts.input.find(label) != std::string::npos ? input_size(label) : given;
  };
  EinsumShapes shapes;
  for (const char label : parts.kernel) {
    const bool in_output = parts.output.find(label) != std::string::npos;
    if (!in_output && parts.input.find(label) == std::string::npos) {
      return InvalidArgument("the axis {} of the kernel is in neither the input nor the result",
                             label);
    }
    shapes.kernel.push_back(in_output ? output_size(label) : input_size(label));
    (in_output ? shapes.outputs : shapes.inputs) *= shapes.kernel.back();
    if (shapes.kernel.back() < 1) {
      return InvalidArgument("output_shape leaves the axis {} of the kernel open", label);
    }
  }
  size_t first = parts.output.size();
  for (const char label : bias_axes) first = std::min(first, parts.output.find(label));
  for (size_t i = first; i < parts.output.size(); ++i) {
    const char label = parts.output[i];
    shapes.bias.push_back(bias_axes.find(label) == std::string::npos ? 1 : output_size(label));
  }
  if (!parts.left_ellipsis) shapes.bias.insert(shapes.bias.end(), elided, 1);
  return shapes;
}

absl::StatusOr<LayerOutput> BuildEinsumDense(LayerContext* context) {
  const Config& config = context->config;
  const Expr x = context->FloatInput(0);
  COHORT_ASSIGN_OR_RETURN(const EinsumParts parts, SplitEquation(config.String("equation")));
  const std::string bias_axes = config.Has("bias_axes") ? config.String("bias_axes") : "";
  for (const char label : bias_axes) {
    if (parts.output.find(label) != std::string::npos) continue;
    return InvalidArgument("bias_axes has {}, which is no axis of the result", label);
  }
  COHORT_ASSIGN_OR_RETURN(const EinsumShapes shapes,
                          ShapesOf(parts, x.type(), config.Ints("output_shape"), bias_axes));
  COHORT_ASSIGN_OR_RETURN(const Expr kernel,
                          context->Weight("kernel", shapes.kernel, "kernel_initializer",
                                          {shapes.inputs, shapes.outputs}));
  const Expr operands[] = {x, kernel};
  COHORT_ASSIGN_OR_RETURN(Expr y, Einsum(config.String("equation"), operands));
  if (!bias_axes.empty()) {
    COHORT_ASSIGN_OR_RETURN(const Expr bias,
                            context->Weight("bias", shapes.bias, "bias_initializer"));
    y = y + bias;
  }
  return Activate(config.Object("activation"), y);
}

}  // namespace

LayerClass EinsumDenseLayer() {
  return {.schema = LayerSchema(
              "EinsumDense", "A product with a kernel by Einstein's summation.",
              {String("equation", "As \"abc,cd->abd\": input, kernel and result."),
               Ints("output_shape", "The shape of a record; none in it: as the input.").NoneItems(),
               ActivationArgument("activation", "linear", "The activation."),
               String("bias_axes", "The axes of the result that the bias has; none: no bias.")
                   .Optional(),
               InitializerArgument("kernel_initializer", "GlorotUniform", "First kernel."),
               InitializerArgument("bias_initializer", "Zeros", "First bias."),
               RegularizerArgument("kernel_regularizer"), RegularizerArgument("bias_regularizer"),
               ConstraintArgument("kernel_constraint"), ConstraintArgument("bias_constraint"),
               Planned("lora_rank"), Planned("lora_alpha"), Planned("quantization_config")}),
          .build = BuildEinsumDense};
}

}  // namespace cohort
