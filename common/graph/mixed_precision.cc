#include "common/graph/mixed_precision.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/graph/expr.h"

namespace cohort {
namespace {

constexpr std::string_view kPrecision = "precision";

bool IsProduct(const Node& node) {
  const OpSchema* const schema = FindOp(node.op);
  return schema != nullptr && std::ranges::any_of(schema->attrs, [](const AttrSchema& a) {
           return a.name == kPrecision;
         });
}

}  // namespace

Precision PrecisionOf(const Node& node) {
  return PrecisionFromName(StringAttr(node, kPrecision, PrecisionName(Precision::kFloat32)))
      .value_or(Precision::kFloat32);
}

absl::Status CheckPrecision(const InferContext& context) {
  const auto name = context.node.attrs.find(kPrecision);
  if (name == context.node.attrs.end()) return absl::OkStatus();
  const std::string_view given = StringAttr(context.node, kPrecision);
  if (!PrecisionFromName(given).has_value()) {
    return InvalidArgument("precision \"{}\" is not float32, bfloat16 or float16",
                           given.substr(0, 60));
  }
  if (context.input(0).dtype == DType::kFloat32) return absl::OkStatus();
  return InvalidArgument("precision {} needs operands of float32, not {}", given,
                         TypeToString(context.input(0)));
}

Program WithPrecision(Program program, Precision precision, const std::set<std::string>& layers) {
  if (precision == Precision::kFloat32) return program;
  for (Node& node : program.nodes) {
    if (!IsProduct(node) || program.type(node.inputs[0]).dtype != DType::kFloat32) continue;
    if (!layers.contains(node.name)) continue;
    node.attrs[std::string(kPrecision)] = std::string(PrecisionName(precision));
  }
  return program;
}

absl::Status PushScaledGradients(ProgramBuilder* builder, Expr loss, const LossScaling& scaling,
                                 VariableFilter wanted) {
  const Expr scale = builder->Input("loss_scale", {DType::kFloat32, {}});
  builder->SetLossScaling(scaling);
  const size_t before = builder->program().pushes.size();
  COHORT_RETURN_IF_ERROR(PushGradients(builder, loss * Cast(scale, loss.dtype()), wanted));
  for (size_t i = before; i < builder->program().pushes.size(); ++i) {
    const Expr gradient(builder, builder->program().pushes[i].value);
    builder->SetPushValue(i, gradient / Cast(scale, gradient.dtype()));
  }
  return builder->status();
}

}  // namespace cohort
