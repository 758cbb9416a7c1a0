#include "common/graph/validate.h"

#include <cmath>
#include <vector>

#include "common/graph/device_name.h"
#include "common/graph/op_registry.h"
#include "common/metrics/finalizers.h"

namespace cohort {
namespace {

constexpr int64_t kMaxCapacity = int64_t{1} << 32;

bool Known(DType dtype) { return SizeOf(dtype) > 0; }

// Walks the program once, in an order in which nothing is used before it is checked.
class Validator {
 public:
  Validator(const Program& program, const ProgramLimits& limits)
      : p_(program), limits_(limits), made_by_(program.values.size(), -1) {}

  absl::Status Run() {
    COHORT_RETURN_IF_ERROR(CheckSizes());
    COHORT_RETURN_IF_ERROR(CheckSymbols());
    COHORT_RETURN_IF_ERROR(CheckVariables());
    COHORT_RETURN_IF_ERROR(CheckValues());
    COHORT_RETURN_IF_ERROR(CheckArguments());
    for (size_t i = 0; i < p_.nodes.size(); ++i) {
      COHORT_RETURN_IF_ERROR(Annotate(CheckNode(i), fmt::format("node {}", i)));
    }
    for (size_t i = 0; i < made_by_.size(); ++i) {
      if (made_by_[i] < 0) return InvalidArgument("value {} is made by no node", i);
    }
    COHORT_RETURN_IF_ERROR(CheckCounted());
    COHORT_RETURN_IF_ERROR(CheckPushes());
    return CheckEnds();
  }

 private:
  absl::Status CheckName(std::string_view what, size_t i, const std::string& name) const {
    if (name.size() <= limits_.max_name_bytes) return absl::OkStatus();
    return InvalidArgument("the name of {} {} is {} bytes long", what, i, name.size());
  }

  absl::Status CheckSizes() const {
    if (p_.nodes.size() > limits_.max_nodes || p_.values.size() > limits_.max_values ||
        p_.symbols.size() > limits_.max_symbols || p_.arguments.size() > limits_.max_values ||
        p_.variables.size() > limits_.max_nodes || p_.pushes.size() > limits_.max_nodes ||
        p_.metrics.size() > limits_.metrics.max_metrics || p_.outputs.size() > limits_.max_nodes) {
      return InvalidArgument("the program is too large: {} nodes, {} values, {} symbols",
                             p_.nodes.size(), p_.values.size(), p_.symbols.size());
    }
    COHORT_RETURN_IF_ERROR(CheckName("program", 0, p_.name));
    for (size_t i = 0; i < p_.nodes.size(); ++i) {
      COHORT_RETURN_IF_ERROR(CheckName("node", i, p_.nodes[i].name));
      COHORT_RETURN_IF_ERROR(CheckName("the op of node", i, p_.nodes[i].op));
    }
    for (size_t i = 0; i < p_.outputs.size(); ++i) {
      COHORT_RETURN_IF_ERROR(CheckName("output", i, p_.outputs[i].name));
    }
    for (size_t i = 0; i < p_.metrics.size(); ++i) {
      COHORT_RETURN_IF_ERROR(CheckName("metric", i, p_.metrics[i].name));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSymbols() const {
    for (size_t i = 0; i < p_.symbols.size(); ++i) {
      COHORT_RETURN_IF_ERROR(CheckName("symbol", i + 1, p_.symbols[i].name));
      const int64_t capacity = p_.symbols[i].capacity;
      if (capacity < 1 || capacity > kMaxCapacity) {
        return InvalidArgument("symbol {} has a capacity of {}", i + 1, capacity);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckVariables() const {
    for (size_t i = 0; i < p_.variables.size(); ++i) {
      const VariableDecl& variable = p_.variables[i];
      COHORT_RETURN_IF_ERROR(CheckName("variable", i, variable.name));
      COHORT_RETURN_IF_ERROR(Annotate(ValidateVariableType(p_, variable.type, limits_),
                                      fmt::format("variable {} '{}'", i, variable.name)));
      for (const Dim& dim : variable.type.dims) {
        if (dim.bounded()) return InvalidArgument("variable {} has a bounded axis", i);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckValues() const {
    double total = 0;
    for (size_t i = 0; i < p_.values.size(); ++i) {
      const ValueType& type = p_.values[i];
      COHORT_RETURN_IF_ERROR(Annotate(ValidateType(p_, type, limits_.max_value_bytes, limits_),
                                      fmt::format("value {}", i)));
      total +=
          static_cast<double>(CapacityElements(type)) * static_cast<double>(SizeOf(type.dtype));
    }
    if (total > static_cast<double>(limits_.max_total_bytes)) {
      return InvalidArgument("all values together would need {} bytes", total);
    }
    return absl::OkStatus();
  }

  absl::Status CheckArguments() {
    counted_.assign(p_.symbols.size(), false);
    for (size_t i = 0; i < p_.arguments.size(); ++i) {
      const ProgramArgument& argument = p_.arguments[i];
      COHORT_RETURN_IF_ERROR(CheckName("argument", i, argument.name));
      COHORT_RETURN_IF_ERROR(CheckId(argument.value, fmt::format("argument {}", i)));
      for (const Dim& dim : p_.type(argument.value).dims) {
        if (dim.bounded()) counted_[static_cast<size_t>(dim.symbol - 1)] = true;
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckId(ValueId id, std::string_view where) const {
    if (id >= 0 && static_cast<size_t>(id) < p_.values.size()) return absl::OkStatus();
    return InvalidArgument("{} names value {}, and there are {}", where, id, p_.values.size());
  }

  absl::Status CheckNode(size_t i) {
    const Node& node = p_.nodes[i];
    std::vector<const ValueType*> inputs;
    bool of_variables = node.op == "read" || node.op == "read_rows";
    for (ValueId id : node.inputs) {
      COHORT_RETURN_IF_ERROR(CheckId(id, "an input"));
      const int maker = made_by_[static_cast<size_t>(id)];
      if (maker < 0) return InvalidArgument("value {} is used before it is made", id);
      of_variables = of_variables || of_variables_[static_cast<size_t>(maker)];
      inputs.push_back(&p_.type(id));
    }
    of_variables_.push_back(of_variables);
    COHORT_RETURN_IF_ERROR(CheckConstant(node));
    if (!node.device.empty()) COHORT_RETURN_IF_ERROR(ParseDeviceName(node.device).status());
    COHORT_ASSIGN_OR_RETURN(const Types types, InferNode(p_, node, inputs));
    if (types.size() != node.outputs.size()) {
      return InvalidArgument("op '{}' makes {} values, not {}", node.op, types.size(),
                             node.outputs.size());
    }
    for (size_t k = 0; k < types.size(); ++k) {
      COHORT_RETURN_IF_ERROR(CheckOutput(i, k, types[k]));
    }
    if (node.op == "unique") return CheckUnique(node);
    if (node.op == "read_rows") return CheckKeys(node.inputs[0]);
    return absl::OkStatus();
  }

  absl::Status CheckOutput(size_t i, size_t k, const ValueType& inferred) {
    const ValueId id = p_.nodes[i].outputs[k];
    COHORT_RETURN_IF_ERROR(CheckId(id, "an output"));
    if (made_by_[static_cast<size_t>(id)] >= 0) {
      return InvalidArgument("value {} is made twice", id);
    }
    if (p_.type(id) != inferred) {
      return InvalidArgument("value {} is declared as {}, but op '{}' makes {}", id,
                             TypeToString(p_.type(id)), p_.nodes[i].op, TypeToString(inferred));
    }
    made_by_[static_cast<size_t>(id)] = static_cast<int>(i);
    return absl::OkStatus();
  }

  absl::Status CheckConstant(const Node& node) {
    if (node.op != "constant") return absl::OkStatus();
    const Tensor* value = TensorAttr(node, "value");
    if (value == nullptr) return absl::OkStatus();  // InferNode reports it
    ValueType type{value->dtype(), {}};
    for (int64_t size : value->dims()) type.dims.push_back({size, 0});
    COHORT_RETURN_IF_ERROR(
        ValidateType(p_, type, static_cast<int64_t>(limits_.max_constant_bytes), limits_));
    if (!value->buffer() || value->byte_offset() > value->buffer()->size() ||
        value->num_bytes() > value->buffer()->size() - value->byte_offset()) {
      return InvalidArgument("a constant of {} bytes lacks its data", value->num_bytes());
    }
    constant_bytes_ += value->num_bytes();
    if (constant_bytes_ > limits_.max_constant_bytes) {
      return InvalidArgument("the constants are larger than {} bytes", limits_.max_constant_bytes);
    }
    return absl::OkStatus();
  }

  absl::Status CheckUnique(const Node& node) {
    const auto symbol = static_cast<size_t>(IntAttr(node, "symbol") - 1);
    if (counted_[symbol]) {
      return InvalidArgument("symbol {} is counted twice: by '{}' and before", symbol + 1, node.op);
    }
    counted_[symbol] = true;
    return absl::OkStatus();
  }

  // Keys name no row twice, and are known before any variable is pulled.
  absl::Status CheckKeys(ValueId id) const {
    const auto maker = static_cast<size_t>(made_by_[static_cast<size_t>(id)]);
    const Node& node = p_.nodes[maker];
    if (node.op != "unique" || node.outputs[0] != id) {
      return InvalidArgument("row keys (value {}) must be the keys of a 'unique'", id);
    }
    if (of_variables_[maker]) {
      return InvalidArgument("row keys (value {}) depend on a variable", id);
    }
    return absl::OkStatus();
  }

  // Bounded sizes only come from arguments and unique; a value's type cannot name another symbol,
  // because it was inferred from theirs. A symbol without a count is one that nobody uses.
  absl::Status CheckCounted() const {
    for (size_t i = 0; i < p_.values.size(); ++i) {
      for (const Dim& dim : p_.values[i].dims) {
        if (dim.bounded() && !counted_[static_cast<size_t>(dim.symbol - 1)]) {
          return InvalidArgument("symbol {} of value {} is never counted", dim.symbol, i);
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckPushes() const {
    std::vector<bool> pushed(p_.variables.size(), false);
    for (size_t i = 0; i < p_.pushes.size(); ++i) {
      const Push& push = p_.pushes[i];
      if (push.variable < 0 || static_cast<size_t>(push.variable) >= p_.variables.size()) {
        return InvalidArgument("push {} names variable {}", i, push.variable);
      }
      const auto variable = static_cast<size_t>(push.variable);
      if (pushed[variable]) {
        return InvalidArgument("variable '{}' is pushed twice", p_.variables[variable].name);
      }
      pushed[variable] = true;
      COHORT_RETURN_IF_ERROR(Annotate(
          CheckPush(push), fmt::format("push {} to '{}'", i, p_.variables[variable].name)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckPush(const Push& push) const {
    if (push.kind < PushKind::kGradient || push.kind > PushKind::kRecordOnly) {
      return InvalidArgument("there is no kind {}", static_cast<int>(push.kind));
    }
    if (!(push.momentum >= 0 && push.momentum <= 1)) {
      return InvalidArgument("momentum {} does not lie in [0, 1]", push.momentum);
    }
    if (push.kind == PushKind::kRecordOnly) {
      if (push.value == kNoValue && push.keys == kNoValue) return absl::OkStatus();
      return InvalidArgument("it only records the id, and has a value");
    }
    COHORT_RETURN_IF_ERROR(CheckId(push.value, "it"));
    if (push.kind == PushKind::kGradient && p_.weight == kNoValue) {
      return InvalidArgument("it is a gradient, and the program has no weight");
    }
    ValueType expected = p_.variables[static_cast<size_t>(push.variable)].type;
    if (push.keys != kNoValue) {
      COHORT_RETURN_IF_ERROR(CheckId(push.keys, "it"));
      COHORT_RETURN_IF_ERROR(CheckKeys(push.keys));
      if (expected.dims.empty()) return InvalidArgument("a scalar has no rows");
      expected.dims[0] = p_.type(push.keys).dims[0];
    }
    if (p_.type(push.value) == expected) return absl::OkStatus();
    return InvalidArgument("its value is {}, not {}", TypeToString(p_.type(push.value)),
                           TypeToString(expected));
  }

  absl::Status CheckScalar(ValueId id, std::string_view what) const {
    COHORT_RETURN_IF_ERROR(CheckId(id, what));
    const ValueType& type = p_.type(id);
    if (type.dims.empty() && IsFloating(type.dtype)) return absl::OkStatus();
    return InvalidArgument("{} must be a floating scalar, not {}", what, TypeToString(type));
  }

  absl::Status CheckAccumulator(const MetricAccumulator& a, size_t* elements) const {
    if (a.reduction < Reduction::kSum || a.reduction > Reduction::kMax) {
      return InvalidArgument("there is no reduction {}", static_cast<int>(a.reduction));
    }
    if (a.name.size() > limits_.metrics.max_name_bytes) {
      return InvalidArgument("its name is {} bytes long", a.name.size());
    }
    COHORT_RETURN_IF_ERROR(CheckId(a.value, "it"));
    const ValueType& type = p_.type(a.value);
    if (type.dims.size() > 1 || !IsFloating(type.dtype) ||
        (type.dims.size() == 1 && type.dims[0].bounded())) {
      return InvalidArgument("it must be a floating scalar or vector of static size, not {}",
                             TypeToString(type));
    }
    *elements += static_cast<size_t>(CapacityElements(type));
    return absl::OkStatus();
  }

  absl::Status CheckMetric(const MetricPartial& metric, size_t* elements) const {
    const MetricLimits& limits = limits_.metrics;
    if (metric.accumulators.empty() || metric.accumulators.size() > limits.max_accumulators) {
      return InvalidArgument("it has {} accumulators, not 1 to {}", metric.accumulators.size(),
                             limits.max_accumulators);
    }
    if (FinalizerBytes(metric.finalizer) > limits.max_finalizer_bytes) {
      return InvalidArgument("its finalizer has {} bytes", FinalizerBytes(metric.finalizer));
    }
    for (const MetricAccumulator& a : metric.accumulators) {
      COHORT_RETURN_IF_ERROR(Annotate(CheckAccumulator(a, elements),
                                      fmt::format("accumulator '{}'", a.name.substr(0, 60))));
      if (*elements > limits.max_elements) {
        return InvalidArgument("its accumulators have {} elements, at most {} are allowed",
                               *elements, limits.max_elements);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckMetrics() const {
    size_t all = 0;
    for (const MetricPartial& metric : p_.metrics) {
      size_t elements = 0;
      COHORT_RETURN_IF_ERROR(
          Annotate(CheckMetric(metric, &elements), fmt::format("metric '{}'", metric.name)));
      all += elements;
    }
    if (all <= limits_.metrics.max_message_elements) return absl::OkStatus();
    return InvalidArgument("the metrics have {} elements, at most {} are allowed", all,
                           limits_.metrics.max_message_elements);
  }

  absl::Status CheckEnds() const {
    COHORT_RETURN_IF_ERROR(CheckMetrics());
    for (const Output& output : p_.outputs) {
      COHORT_RETURN_IF_ERROR(CheckId(output.value, fmt::format("output '{}'", output.name)));
    }
    COHORT_RETURN_IF_ERROR(CheckLossScaling());
    return p_.weight == kNoValue ? absl::OkStatus() : CheckScalar(p_.weight, "the weight");
  }

  absl::Status CheckLossScaling() const {
    const double scale = p_.loss_scaling.initial;
    if (scale == 0) return absl::OkStatus();
    if (!std::isfinite(scale) || scale < 0) {
      return InvalidArgument("the loss scale {} must be a number above 0", scale);
    }
    if (p_.arguments.empty() ||
        p_.type(p_.arguments.back().value) != ValueType{DType::kFloat32, {}}) {
      return InvalidArgument(
          "the program has a loss scale, and its last argument is no float32 scalar");
    }
    return absl::OkStatus();
  }

  const Program& p_;
  const ProgramLimits& limits_;
  std::vector<int> made_by_;        // node, by value; -1: not yet
  std::vector<bool> of_variables_;  // by node: depends on a pulled variable
  std::vector<bool> counted_;       // by symbol
  size_t constant_bytes_ = 0;
};

}  // namespace

absl::Status ValidateType(const Program& program, const ValueType& type, int64_t max_bytes,
                          const ProgramLimits& limits) {
  if (!Known(type.dtype)) {
    return InvalidArgument("dtype {} is unknown", static_cast<int>(type.dtype));
  }
  if (type.dims.size() > limits.max_rank) {
    return InvalidArgument("{} axes exceed the limit of {}", type.dims.size(), limits.max_rank);
  }
  int64_t bytes = static_cast<int64_t>(SizeOf(type.dtype));
  for (const Dim& dim : type.dims) {
    if (dim.symbol < 0 || static_cast<size_t>(dim.symbol) > program.symbols.size()) {
      return InvalidArgument("there is no symbol {}", dim.symbol);
    }
    if (dim.size < 1 || bytes > max_bytes / dim.size) {
      return InvalidArgument("a size of {} is out of range (at most {} bytes)", dim.size,
                             max_bytes);
    }
    bytes *= dim.size;
    if (!dim.bounded()) continue;
    const int64_t capacity = program.symbols[static_cast<size_t>(dim.symbol - 1)].capacity;
    if (capacity < 1 || dim.size % capacity != 0) {
      return InvalidArgument(
          "a bounded size of {} is not a multiple of the capacity {} of its symbol", dim.size,
          capacity);
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateVariableType(const Program& program, ValueType type,
                                  const ProgramLimits& limits) {
  if (IsTable(type)) type.dims[0].size = 1;
  return ValidateType(program, type, limits.max_variable_bytes, limits);
}

absl::Status ValidateProgram(const Program& program, const ProgramLimits& limits) {
  return Annotate(Validator(program, limits).Run(),
                  fmt::format("program '{}'", program.name.substr(0, 64)));
}

}  // namespace cohort
