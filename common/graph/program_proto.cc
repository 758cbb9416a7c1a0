#include "common/graph/program_proto.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <cstring>
#include <limits>

#include "common/graph/validate.h"
#include "common/metrics/finalizers.h"
#include "proto/program.pb.h"

namespace cohort {
namespace {

void TypeToProto(const ValueType& type, v1::ValueType* proto) {
  proto->set_dtype(static_cast<v1::DType>(type.dtype));
  for (const Dim& dim : type.dims) {
    v1::Dim* d = proto->add_dims();
    d->set_size(dim.size);
    d->set_symbol(dim.symbol);
  }
}

// Unknown numbers become kInvalid, which validation refuses.
DType DTypeFromProto(int dtype) {
  const bool known = dtype >= 0 && dtype <= static_cast<int>(DType::kBool);
  return known ? static_cast<DType>(dtype) : DType::kInvalid;
}

ValueType TypeFromProto(const v1::ValueType& proto) {
  ValueType type{DTypeFromProto(proto.dtype()), {}};
  for (const v1::Dim& dim : proto.dims()) type.dims.push_back({dim.size(), dim.symbol()});
  return type;
}

struct AttrWriter {
  v1::Attr* proto;
  void operator()(int64_t v) const { proto->set_i(v); }
  void operator()(double v) const { proto->set_f(v); }
  void operator()(bool v) const { proto->set_b(v); }
  void operator()(const std::string& v) const { proto->set_s(v); }
  void operator()(const std::vector<int64_t>& v) const {
    v1::IntList* list = proto->mutable_ints();
    for (int64_t x : v) list->add_values(x);
  }
  void operator()(const Tensor& v) const { TensorToProto(v, proto->mutable_tensor()); }
};

absl::StatusOr<Attr> AttrFromProto(const v1::Attr& proto) {
  switch (proto.value_case()) {
    case v1::Attr::kI:
      return Attr(proto.i());
    case v1::Attr::kF:
      return Attr(proto.f());
    case v1::Attr::kB:
      return Attr(proto.b());
    case v1::Attr::kS:
      return Attr(proto.s());
    case v1::Attr::kInts:
      return Attr(std::vector<int64_t>(proto.ints().values().begin(), proto.ints().values().end()));
    case v1::Attr::kTensor: {
      COHORT_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto.tensor()));
      return Attr(std::move(tensor));
    }
    case v1::Attr::VALUE_NOT_SET:
      break;
  }
  return InvalidArgument("it has no value");
}

absl::StatusOr<Node> NodeFromProto(const v1::Node& proto) {
  Node node;
  node.op = proto.op();
  node.name = proto.name();
  node.device = proto.device();
  node.inputs.assign(proto.inputs().begin(), proto.inputs().end());
  node.outputs.assign(proto.outputs().begin(), proto.outputs().end());
  for (const auto& [name, attr] : proto.attrs()) {
    auto value = AttrFromProto(attr);
    if (!value.ok()) {
      return Annotate(value.status(), fmt::format("attribute '{}' of op '{}'", name, node.op));
    }
    node.attrs.emplace(name, *std::move(value));
  }
  return node;
}

// A mean of two scalars keeps its short form, the only one that older versions know.
void MetricToProto(const MetricPartial& metric, v1::MetricPartial* proto) {
  const auto& a = metric.accumulators;
  proto->set_name(metric.name);
  if (IsMean(metric.finalizer) && a.size() == 2 && a[0].name == kTotal && a[1].name == kCount &&
      a[0].reduction == Reduction::kSum && a[1].reduction == Reduction::kSum) {
    proto->set_total(a[0].value);
    proto->set_count(a[1].value);
    return;
  }
  // Versions of the protocol before 1.2 refuse the program for its metric without a total.
  proto->set_total(kNoValue);
  proto->set_count(kNoValue);
  if (metric.finalizer != nullptr) *proto->mutable_finalizer() = *metric.finalizer;
  for (const MetricAccumulator& accumulator : a) {
    v1::MetricAccumulator* out = proto->add_accumulators();
    out->set_name(accumulator.name);
    out->set_reduction(static_cast<v1::Reduction>(accumulator.reduction));
    out->set_value(accumulator.value);
  }
}

// Unknown numbers become one that validation refuses.
Reduction ReductionFromProto(int reduction) {
  const bool known = reduction >= v1::REDUCE_SUM && reduction <= v1::REDUCE_MAX;
  return known ? static_cast<Reduction>(reduction) : Reduction{};
}

MetricPartial MetricFromProto(const v1::MetricPartial& proto) {
  MetricPartial metric{proto.name(), nullptr, {}};
  if (proto.accumulators().empty()) {
    metric.accumulators = {{kTotal, Reduction::kSum, proto.total()},
                           {kCount, Reduction::kSum, proto.count()}};
    return metric;
  }
  if (proto.has_finalizer()) {
    metric.finalizer = std::make_shared<const v1::ClassConfig>(proto.finalizer());
  }
  for (const v1::MetricAccumulator& a : proto.accumulators()) {
    metric.accumulators.push_back({a.name(), ReductionFromProto(a.reduction()), a.value()});
  }
  return metric;
}

void EndsToProto(const Program& program, v1::Program* proto) {
  for (const Push& push : program.pushes) {
    v1::Push* p = proto->add_pushes();
    p->set_variable(push.variable);
    p->set_kind(static_cast<v1::PushKind>(push.kind));
    p->set_value(push.value);
    p->set_keys(push.keys + 1);
    p->set_momentum(push.momentum);
  }
  for (const MetricPartial& metric : program.metrics) {
    MetricToProto(metric, proto->add_metrics());
  }
  for (const Output& output : program.outputs) {
    v1::Output* o = proto->add_outputs();
    o->set_name(output.name);
    o->set_value(output.value);
  }
  proto->set_weight(program.weight + 1);
  if (program.loss_scaling.enabled()) {
    proto->mutable_loss_scaling()->set_initial(program.loss_scaling.initial);
    proto->mutable_loss_scaling()->set_growth_steps(program.loss_scaling.growth_steps);
  }
}

// Value ids + 1 with 0 for none; the least integer is no id, and would overflow.
ValueId OptionalId(int32_t id) {
  return id == std::numeric_limits<int32_t>::min() ? std::numeric_limits<int32_t>::min() : id - 1;
}

absl::Status EndsFromProto(const v1::Program& proto, Program* program) {
  for (const v1::Push& push : proto.pushes()) {
    const int kind = push.kind();
    if (kind < 1 || kind > static_cast<int>(PushKind::kRecordOnly)) {
      return InvalidArgument("there is no push of kind {}", kind);
    }
    program->pushes.push_back({push.variable(), static_cast<PushKind>(kind), push.value(),
                               OptionalId(push.keys()), push.momentum()});
  }
  for (const v1::MetricPartial& metric : proto.metrics()) {
    program->metrics.push_back(MetricFromProto(metric));
  }
  for (const v1::Output& output : proto.outputs()) {
    program->outputs.push_back({output.name(), output.value()});
  }
  program->weight = OptionalId(proto.weight());
  program->loss_scaling = {proto.loss_scaling().initial(), proto.loss_scaling().growth_steps()};
  return absl::OkStatus();
}

}  // namespace

void TensorToProto(const Tensor& tensor, v1::TensorValue* proto) {
  proto->set_dtype(static_cast<v1::DType>(tensor.dtype()));
  for (int64_t size : tensor.dims()) proto->add_dims(size);
  proto->set_data(tensor.raw(), tensor.num_bytes());
}

absl::StatusOr<Tensor> TensorFromProto(const v1::TensorValue& proto) {
  const DType dtype = DTypeFromProto(proto.dtype());
  if (dtype == DType::kInvalid) return InvalidArgument("a tensor of dtype {}", proto.dtype());
  const auto data_bytes = static_cast<int64_t>(proto.data().size());
  int64_t bytes = static_cast<int64_t>(SizeOf(dtype));
  for (int64_t size : proto.dims()) {
    // What is larger than the data is wrong anyway, and cannot overflow before it is found.
    if (size < 0 || (size > 0 && bytes > data_bytes / size)) {
      return InvalidArgument("a tensor of {} bytes does not have the dims {}", data_bytes,
                             DimsToString({proto.dims().data(), size_t(proto.dims_size())}));
    }
    bytes *= size;
  }
  if (bytes != data_bytes) {
    return InvalidArgument("a tensor of {} bytes has {} bytes of data", bytes, data_bytes);
  }
  if (dtype == DType::kBool) {
    for (char c : proto.data()) {
      if (c != 0 && c != 1) return InvalidArgument("a boolean that is neither 0 nor 1");
    }
  }
  Tensor tensor(dtype, Dims(proto.dims().begin(), proto.dims().end()));
  std::memcpy(tensor.raw(), proto.data().data(), proto.data().size());
  return tensor;
}

void ProgramToProto(const Program& program, v1::Program* proto) {
  proto->Clear();
  proto->set_format_version(1);
  proto->set_name(program.name);
  for (const Symbol& symbol : program.symbols) {
    v1::Symbol* s = proto->add_symbols();
    s->set_name(symbol.name);
    s->set_capacity(symbol.capacity);
  }
  for (const ValueType& type : program.values) TypeToProto(type, proto->add_values());
  for (const Node& node : program.nodes) {
    v1::Node* n = proto->add_nodes();
    n->set_op(node.op);
    n->set_name(node.name);
    n->set_device(node.device);
    for (ValueId id : node.inputs) n->add_inputs(id);
    for (ValueId id : node.outputs) n->add_outputs(id);
    for (const auto& [name, attr] : node.attrs) {
      std::visit(AttrWriter{&(*n->mutable_attrs())[name]}, attr);
    }
  }
  for (const ProgramArgument& argument : program.arguments) {
    v1::Argument* a = proto->add_arguments();
    a->set_name(argument.name);
    a->set_value(argument.value);
  }
  for (const VariableDecl& variable : program.variables) {
    v1::VariableDecl* v = proto->add_variables();
    v->set_name(variable.name);
    TypeToProto(variable.type, v->mutable_type());
    v->set_reads_average(variable.reads_average);
  }
  EndsToProto(program, proto);
}

absl::StatusOr<Program> ProgramFromProto(const v1::Program& proto) {
  if (proto.format_version() != 1) {
    return InvalidArgument("program format {} is not 1; it was made by another version",
                           proto.format_version());
  }
  Program program;
  program.name = proto.name();
  for (const v1::Symbol& symbol : proto.symbols()) {
    program.symbols.push_back({symbol.name(), symbol.capacity()});
  }
  for (const v1::ValueType& type : proto.values()) program.values.push_back(TypeFromProto(type));
  for (int i = 0; i < proto.nodes_size(); ++i) {
    auto node = NodeFromProto(proto.nodes(i));
    if (!node.ok()) return Annotate(node.status(), fmt::format("node {}", i));
    program.nodes.push_back(*std::move(node));
  }
  for (const v1::Argument& argument : proto.arguments()) {
    program.arguments.push_back({argument.name(), argument.value()});
  }
  for (const v1::VariableDecl& variable : proto.variables()) {
    program.variables.push_back(
        {variable.name(), TypeFromProto(variable.type()), variable.reads_average()});
  }
  COHORT_RETURN_IF_ERROR(EndsFromProto(proto, &program));
  COHORT_RETURN_IF_ERROR(ValidateProgram(program));
  return program;
}

}  // namespace cohort
