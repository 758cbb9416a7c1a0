#include "common/exec/resident_step.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/exchange/row_check.h"
#include "common/graph/op_registry.h"

namespace cohort {
namespace {

constexpr char kPurpose[] = "the ops on the variables of a program";

size_t IndexOf(int i) { return static_cast<size_t>(i); }

bool HasGradients(const Program& program) {
  return std::ranges::any_of(program.pushes,
                             [](const Push& push) { return push.kind == PushKind::kGradient; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResidentStep>> ResidentStep::Make(
    const CompiledProgram& compiled, const ValueTable* on_device,
    const ResidentVariables& variables) {
  std::unique_ptr<ResidentStep> step(new ResidentStep(compiled, on_device, variables));
  COHORT_ASSIGN_OR_RETURN(const VariableOps* ops, VariableOps::Of(variables.device()->kind()));
  for (const VariableDecl& decl : compiled.program.variables) {
    COHORT_ASSIGN_OR_RETURN(const ResidentVariables::Variable* variable, variables.Find(decl));
    step->bound_.push_back(variable);
  }
  COHORT_RETURN_IF_ERROR(step->AddReads(compiled, *ops));
  if (compiled.updates_itself()) {
    COHORT_RETURN_IF_ERROR(step->AddScale(*ops));
    COHORT_RETURN_IF_ERROR(step->AddPushes(*ops));
  }
  COHORT_RETURN_IF_ERROR(step->Allocate());
  return step;
}

std::vector<ValueId> ResidentStep::Inputs(const CompiledProgram& compiled) {
  const Program& program = compiled.program;
  std::vector<ValueId> values;
  for (const Node& node : program.nodes) {
    if (node.op == "read_rows") values.push_back(node.inputs[0]);
  }
  for (const Push& push : program.pushes) {
    if (!compiled.updates_itself() && push.kind != PushKind::kGradient) continue;
    if (push.value != kNoValue) values.push_back(push.value);
    if (push.keys != kNoValue && compiled.updates_itself()) values.push_back(push.keys);
  }
  if (compiled.updates_itself() && HasGradients(program) && program.weight != kNoValue)
    values.push_back(program.weight);
  return values;
}

DeviceKeys ResidentStep::KeysOf(ValueId keys) const {
  return {on_device_->view(keys).as<const int64_t>(), CapacityElements(program_.type(keys))};
}

absl::Status ResidentStep::AddReads(const CompiledProgram& compiled, const VariableOps& ops) {
  for (const int n : compiled.reads) {
    const Node& node = program_.nodes[IndexOf(n)];
    if (node.op != "read_rows") continue;
    const DeviceVariable& from = bound_[static_cast<size_t>(IntAttr(node, "variable"))]->at;
    Op read{.keys = node.inputs[0], .variable = &from};
    COHORT_ASSIGN_OR_RETURN(read.op, ops.ReadRows(from, KeysOf(node.inputs[0]),
                                                  on_device_->view(node.outputs[0]).data));
    reads_.push_back(std::move(read));
  }
  return absl::OkStatus();
}

absl::Status ResidentStep::AddScale(const VariableOps& ops) {
  COHORT_ASSIGN_OR_RETURN(scale_, variables_.device()->Allocate(sizeof(double), kPurpose));
  if (!HasGradients(program_)) return absl::OkStatus();
  if (program_.weight == kNoValue) {
    return FailedPrecondition("program \"{}\" has gradients, but no weight of its loss",
                              program_.name);
  }
  Op scale;
  COHORT_ASSIGN_OR_RETURN(scale.op, ops.GradientScale(on_device_->view(program_.weight).data,
                                                      program_.type(program_.weight).dtype,
                                                      reinterpret_cast<double*>(scale_.data())));
  scale_ops_.push_back(std::move(scale));
  return absl::OkStatus();
}

absl::Status ResidentStep::AddPushes(const VariableOps& ops) {
  for (const Push& push : program_.pushes) {
    if (push.value == kNoValue || push.kind == PushKind::kRecordOnly) continue;
    const ResidentVariables::Variable& variable = *bound_[IndexOf(push.variable)];
    if (variable.group == kNoGroup) {
      return Unimplemented("variable \"{}\" is cut: only its owners can update their parts",
                           variable.at.name);
    }
    Op op{.keys = push.keys, .variable = &variable.at, .group = variable.group};
    COHORT_ASSIGN_OR_RETURN(op.op, OpOfPush(push, ops));
    pushes_.push_back(std::move(op));
  }
  std::ranges::stable_sort(pushes_, {}, &Op::group);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<VariableOp>> ResidentStep::OpOfPush(const Push& push,
                                                                   const VariableOps& ops) {
  const ResidentVariables::Variable& variable = *bound_[IndexOf(push.variable)];
  DevicePush pushed = {.values = on_device_->view(push.value).data};
  if (push.keys != kNoValue) pushed.rows = KeysOf(push.keys);
  switch (push.kind) {
    case PushKind::kGradient:
      if (variable.rule == nullptr) {
        return FailedPrecondition("a gradient is pushed to \"{}\", which is not trainable",
                                  variable.at.name);
      }
      return ops.Update(variable.rule.get(), variable.at, pushed,
                        reinterpret_cast<const double*>(scale_.data()));
    case PushKind::kEma:
      return ops.Average(variable.at, pushed, push.momentum);
    case PushKind::kAssignAdd:
      return ops.AssignAdd(variable.at, pushed);
    case PushKind::kRecordOnly:
      break;
  }
  return Unimplemented("a push of this kind cannot be applied on a device");
}

absl::Status ResidentStep::Allocate() {
  size_t bytes = 0;
  for (std::vector<Op>* ops : {&reads_, &scale_ops_, &pushes_}) {
    if (ops == &pushes_) read_bytes_ = bytes;
    for (Op& op : *ops) {
      op.body = bytes;
      bytes += op.op->body_bytes();
    }
  }
  COHORT_ASSIGN_OR_RETURN(uploads_, variables_.device()->Allocate(bytes, kPurpose));
  COHORT_ASSIGN_OR_RETURN(staging_, variables_.device()->AllocatePinned(bytes, kPurpose));
  return absl::OkStatus();
}

// Keys ascend, because `unique` makes them.
absl::Status ResidentStep::CheckKeys(const Op& op, const ValueView& keys) const {
  if (keys.elements == 0) return absl::OkStatus();
  const int64_t first = keys.as<const int64_t>()[0];
  const int64_t last = keys.as<const int64_t>()[keys.elements - 1];
  if (first >= 0 && last < op.variable->rows) return absl::OkStatus();
  return RowBeyondVariable(first < 0 ? first : last, op.variable->name, op.variable->rows);
}

absl::Status ResidentStep::NoteKeys(std::vector<Op>* ops, const ValueTable& host) const {
  for (Op& op : *ops) {
    if (op.keys == kNoValue) continue;
    const ValueView& keys = host.view(op.keys);
    COHORT_RETURN_IF_ERROR(CheckKeys(op, keys));
    op.count = keys.elements;
  }
  return absl::OkStatus();
}

absl::Status ResidentStep::WriteReads(const ValueTable& host) {
  COHORT_RETURN_IF_ERROR(NoteKeys(&reads_, host));
  COHORT_RETURN_IF_ERROR(NoteKeys(&pushes_, host));
  for (const std::vector<Op>* ops : {&reads_, &scale_ops_}) {
    for (const Op& op : *ops) op.op->WriteBody({.keys = op.count}, staging_.data() + op.body);
  }
  return absl::OkStatus();
}

void ResidentStep::WritePushes(uint32_t group, uint64_t step) {
  for (const Op& op : pushes_) {
    if (op.group != group) continue;
    op.op->WriteBody({.step = step, .keys = op.count}, staging_.data() + op.body);
  }
}

void ResidentStep::PlanUpload(size_t begin, size_t end, GraphPlan* plan) const {
  plan->AddCopy("bodies of variables", {.to = uploads_.data() + begin,
                                        .from = staging_.data() + begin,
                                        .bytes = end - begin,
                                        .to_device = true});
}

void ResidentStep::PlanReads(GraphPlan* plan) const {
  PlanUpload(0, read_bytes_, plan);
  for (const Op& op : reads_) op.op->AddTo(plan, uploads_.data() + op.body);
}

void ResidentStep::PlanScale(GraphPlan* plan) const {
  for (const Op& op : scale_ops_) op.op->AddTo(plan, uploads_.data() + op.body);
}

void ResidentStep::PlanPushes(uint32_t group, GraphPlan* plan) const {
  const auto is_before = [](const Op& op, uint32_t g) { return op.group < g; };
  const auto begin = std::lower_bound(pushes_.begin(), pushes_.end(), group, is_before);
  const auto end =
      std::find_if(begin, pushes_.end(), [&](const Op& op) { return op.group != group; });
  if (begin == end) return;
  const Op& last = *std::prev(end);
  PlanUpload(begin->body, last.body + last.op->body_bytes(), plan);
  for (auto op = begin; op != end; ++op) op->op->AddTo(plan, uploads_.data() + op->body);
}

}  // namespace cohort
