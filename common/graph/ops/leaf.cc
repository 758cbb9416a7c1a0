// The sources of values: the batch, variables, constants. They have no gradient rule: autodiff
// collects the gradients that arrive at `read` and `read_rows`.
#include "common/graph/hot_rows.h"
#include "common/graph/ops/families.h"

namespace cohort::ops {
namespace {

// The type of an argument is what the program says; ValidateProgram checks that by itself.
absl::StatusOr<Types> InferInput(const InferContext& context) {
  const int64_t index = IntAttr(context.node, "index");
  const Program& program = context.program;
  if (index < 0 || index >= static_cast<int64_t>(program.arguments.size())) {
    return InvalidArgument("there is no argument {} (there are {})", index,
                           program.arguments.size());
  }
  const ProgramArgument& argument = program.arguments[static_cast<size_t>(index)];
  if (argument.value < 0 || static_cast<size_t>(argument.value) >= program.values.size()) {
    return InvalidArgument("argument {} names no value", index);
  }
  if (context.node.outputs.size() != 1 || context.node.outputs[0] != argument.value) {
    return InvalidArgument("argument {} is value {}, which this node does not make", index,
                           argument.value);
  }
  return Types{program.type(argument.value)};
}

absl::StatusOr<const ValueType*> VariableType(const InferContext& context) {
  const int64_t index = IntAttr(context.node, "variable");
  const auto& variables = context.program.variables;
  if (index < 0 || index >= static_cast<int64_t>(variables.size())) {
    return InvalidArgument("there is no variable {} (there are {})", index, variables.size());
  }
  return &variables[static_cast<size_t>(index)].type;
}

absl::StatusOr<Types> InferRead(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const ValueType* type, VariableType(context));
  return Types{*type};
}

absl::StatusOr<Types> InferReadRows(const InferContext& context) {
  COHORT_ASSIGN_OR_RETURN(const ValueType* type, VariableType(context));
  COHORT_RETURN_IF_ERROR(CheckDType(context, 0, DType::kInt64));
  COHORT_RETURN_IF_ERROR(CheckRank(context, 0, 1));
  if (type->dims.empty()) return InvalidArgument("the variable is a scalar and has no rows");
  const int64_t max_age = IntAttr(context.node, "max_age");
  const int64_t kept_rows = IntAttr(context.node, "kept_rows");
  if (max_age < 0 || kept_rows < 0 || kept_rows > kMaxHotRows) {
    return InvalidArgument(
        "`max_age` is {} and `kept_rows` {}: they are at least 0, and at most {} rows are kept",
        max_age, kept_rows, kMaxHotRows);
  }
  ValueType rows = *type;
  rows.dims[0] = context.input(0).dims[0];
  return Types{std::move(rows)};
}

absl::StatusOr<Types> InferConstant(const InferContext& context) {
  const Tensor* value = TensorAttr(context.node, "value");
  ValueType type{value->dtype(), {}};
  for (int64_t size : value->dims()) type.dims.push_back({size, 0});
  return Types{std::move(type)};
}

}  // namespace

std::vector<OpSchema> LeafOps() {
  return {
      {"input", 0, 0, 1, {{"index", AttrKind::kInt}}, InferInput},
      {"read", 0, 0, 1, {{"variable", AttrKind::kInt}}, InferRead},
      {"read_rows",
       1,
       1,
       1,
       {{"variable", AttrKind::kInt},
        {"max_age", AttrKind::kInt, false},
        {"kept_rows", AttrKind::kInt, false}},
       InferReadRows},
      {"constant", 0, 0, 1, {{"value", AttrKind::kTensor}}, InferConstant},
  };
}

}  // namespace cohort::ops
