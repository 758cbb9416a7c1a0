#include "common/graph/program_builder.h"

#include <algorithm>

#include "common/graph/op_registry.h"
#include "common/graph/validate.h"
#include "common/metrics/finalizers.h"

namespace cohort {

ValueType Expr::type() const { return valid() ? builder_->program().type(id_) : ValueType{}; }
DType Expr::dtype() const { return type().dtype; }
size_t Expr::rank() const { return type().dims.size(); }

ProgramBuilder::ProgramBuilder(std::string name) { program_.name = std::move(name); }

ProgramBuilder::ProgramBuilder(Program program) : program_(std::move(program)) {
  for (size_t i = 0; i < program_.variables.size(); ++i) {
    variables_.emplace(program_.variables[i].name, static_cast<int>(i));
  }
  for (const Node& node : program_.nodes) {
    const Expr value(this, node.outputs[0]);
    if (node.op == "read" || node.op == "read_rows") {
      const auto variable = static_cast<int>(IntAttr(node, "variable"));
      if (node.op == "read") reads_.emplace(variable, value);
      if (node.op == "read_rows") row_reads_.emplace(std::pair(variable, node.inputs[0]), value);
    }
    if (node.attrs.contains("number")) {
      next_number_ = std::max(next_number_, IntAttr(node, "number") + 1);
    }
  }
}

void ProgramBuilder::Fail(absl::Status status) {
  if (status_.ok() && !status.ok()) status_ = std::move(status);
}

int ProgramBuilder::AddSymbol(std::string name, int64_t capacity) {
  if (capacity < 1) Fail(InvalidArgument("symbol '{}' has a capacity of {}", name, capacity));
  program_.symbols.push_back({std::move(name), capacity});
  return static_cast<int>(program_.symbols.size());
}

Expr ProgramBuilder::Input(std::string name, ValueType type) {
  const ProgramLimits limits;
  absl::Status valid = ValidateType(program_, type, limits.max_value_bytes, limits);
  if (!valid.ok()) {
    Fail(Annotate(std::move(valid), fmt::format("argument '{}'", name)));
    return {};
  }
  const auto id = static_cast<ValueId>(program_.values.size());
  Node node;
  node.op = "input";
  node.name = name;
  node.attrs = {{"index", static_cast<int64_t>(program_.arguments.size())}};
  program_.arguments.push_back({std::move(name), id});
  return AddNode(std::move(node), {std::move(type)}, nullptr);
}

int ProgramBuilder::DeclareVariable(std::string_view name, const ValueType& type) {
  const auto it = variables_.find(name);
  if (it != variables_.end()) {
    const ValueType& known = program_.variables[static_cast<size_t>(it->second)].type;
    if (known != type) {
      Fail(InvalidArgument("variable '{}' is {} and not {}", name, TypeToString(known),
                           TypeToString(type)));
    }
    return it->second;
  }
  const ProgramLimits limits;
  Fail(Annotate(ValidateVariableType(program_, type, limits), fmt::format("variable '{}'", name)));
  const auto index = static_cast<int>(program_.variables.size());
  program_.variables.push_back({std::string(name), type});
  variables_.emplace(std::string(name), index);
  return index;
}

Expr ProgramBuilder::Read(std::string_view name, const ValueType& type) {
  const int variable = DeclareVariable(name, type);
  const auto it = reads_.find(variable);
  if (it != reads_.end()) return it->second;
  const Expr value = Op("read", {}, {{"variable", int64_t{variable}}});
  reads_.emplace(variable, value);
  return value;
}

Expr ProgramBuilder::ReadRows(std::string_view name, const ValueType& type, Expr keys) {
  const int variable = DeclareVariable(name, type);
  const auto key = std::make_pair(variable, keys.id());
  const auto it = row_reads_.find(key);
  if (it != row_reads_.end()) return it->second;
  const Expr value = Op("read_rows", {keys}, {{"variable", int64_t{variable}}});
  row_reads_.emplace(key, value);
  return value;
}

Expr ProgramBuilder::Constant(const Tensor& value) {
  return Op("constant", {}, {{"value", value}});
}

Expr ProgramBuilder::Scalar(double value, DType dtype) {
  const auto it = scalars_.find({dtype, value});
  if (it != scalars_.end()) return it->second;
  Tensor tensor;
  switch (dtype) {
    case DType::kFloat32:
      tensor = Tensor::Scalar(static_cast<float>(value));
      break;
    case DType::kFloat64:
      tensor = Tensor::Scalar(value);
      break;
    case DType::kInt64:
      tensor = Tensor::Scalar(static_cast<int64_t>(value));
      break;
    default:
      Fail(InvalidArgument("there are no scalars of {}", DTypeName(dtype)));
      return {};
  }
  const Expr scalar = Constant(tensor);
  scalars_.emplace(std::make_pair(dtype, value), scalar);
  return scalar;
}

bool ProgramBuilder::CheckInputs(std::string_view op, std::span<const Expr> inputs) {
  if (!status_.ok()) return false;
  for (const Expr& x : inputs) {
    if (x.valid() && x.builder() == this) continue;
    Fail(InvalidArgument("an input of op '{}' {}", op,
                         x.valid() ? "belongs to another program" : "is not a value"));
    return false;
  }
  return true;
}

std::vector<Expr> ProgramBuilder::OpOutputs(std::string_view op, std::span<const Expr> inputs,
                                            Attrs attrs) {
  const OpSchema* schema = FindOp(op);
  std::vector<Expr> outputs(schema == nullptr ? 1 : static_cast<size_t>(schema->num_outputs));
  if (!CheckInputs(op, inputs)) return outputs;
  Node node;
  node.op = std::string(op);
  node.name = scope_;
  node.attrs = std::move(attrs);
  if (!IsLeaf(node)) node.device = device_;
  std::vector<const ValueType*> input_types;
  for (const Expr& x : inputs) {
    node.inputs.push_back(x.id());
    input_types.push_back(&program_.type(x.id()));
  }
  absl::StatusOr<Types> types = InferNode(program_, node, input_types);
  Fail(types.status());
  const ProgramLimits limits;
  for (size_t i = 0; types.ok() && i < types->size(); ++i) {
    Fail(Annotate(ValidateType(program_, (*types)[i], limits.max_value_bytes, limits),
                  fmt::format("op '{}'", op)));
  }
  if (status().ok()) AddNode(std::move(node), *std::move(types), &outputs);
  return outputs;
}

Expr ProgramBuilder::AddNode(Node node, std::vector<ValueType> types, std::vector<Expr>* outputs) {
  const auto first = static_cast<ValueId>(program_.values.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const ValueId id = first + static_cast<ValueId>(i);
    node.outputs.push_back(id);
    program_.values.push_back(std::move(types[i]));
    if (outputs != nullptr) (*outputs)[i] = Expr(this, id);
  }
  program_.nodes.push_back(std::move(node));
  return Expr(this, first);
}

Expr ProgramBuilder::Op(std::string_view op, std::initializer_list<Expr> inputs, Attrs attrs) {
  return OpOutputs(op, {inputs.begin(), inputs.size()}, std::move(attrs))[0];
}

Expr ProgramBuilder::Op(std::string_view op, std::span<const Expr> inputs, Attrs attrs) {
  return OpOutputs(op, inputs, std::move(attrs))[0];
}

void ProgramBuilder::AddPush(Push push) { program_.pushes.push_back(push); }

void ProgramBuilder::SetPushValue(size_t push, Expr value) {
  if (!value.valid()) return Fail(InvalidArgument("push {} is not a value", push));
  program_.pushes[push].value = value.id();
}

void ProgramBuilder::AddMetric(std::string name, const v1::ClassConfig& finalizer,
                               std::span<const MetricExpr> accumulators) {
  MetricPartial metric{std::move(name), nullptr, {}};
  std::vector<std::string> names;
  for (const MetricExpr& a : accumulators) {
    if (!a.value.valid()) Fail(InvalidArgument("metric '{}' is not a value", metric.name));
    metric.accumulators.push_back({a.name, a.reduction, a.value.id()});
    names.push_back(a.name);
  }
  auto config = MakeFinalizer(finalizer, names);
  if (!config.ok()) Fail(Annotate(config.status(), fmt::format("metric '{}'", metric.name)));
  if (config.ok() && !IsMean(*config)) metric.finalizer = *std::move(config);
  program_.metrics.push_back(std::move(metric));
}

void ProgramBuilder::AddMetric(std::string name, Expr total, Expr count) {
  v1::ClassConfig mean;
  mean.set_class_name("Mean");
  const MetricExpr accumulators[] = {{kTotal, total}, {kCount, count}};
  AddMetric(std::move(name), mean, accumulators);
}

void ProgramBuilder::AddOutput(std::string name, Expr value) {
  if (!value.valid()) Fail(InvalidArgument("output '{}' is not a value", name));
  program_.outputs.push_back({std::move(name), value.id()});
}

void ProgramBuilder::SetLoss(Expr weight) {
  if (!weight.valid()) Fail(InvalidArgument("the weight of the loss is not a value"));
  program_.weight = weight.id();
}

absl::StatusOr<Program> ProgramBuilder::Build() && {
  if (!status_.ok()) return Annotate(status_, fmt::format("program '{}'", program_.name));
  Program program = PruneDeadNodes(program_);
  COHORT_RETURN_IF_ERROR(ValidateProgram(program));
  return program;
}

}  // namespace cohort
