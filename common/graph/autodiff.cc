#include "common/graph/autodiff.h"

#include <map>

#include "common/graph/expr.h"
#include "common/graph/op_registry.h"

namespace cohort {
namespace {

// The reverse sweep over the nodes that are there when it starts.
class Sweep {
 public:
  Sweep(Expr loss, std::span<const Expr> wrt)
      : builder_(loss.builder()),
        needs_(builder_->program().values.size(), false),
        grads_(builder_->program().values.size()) {
    for (const Expr& x : wrt) needs_[Index(x.id())] = true;
    // A value needs a gradient if it depends on one of the wanted values.
    for (const Node& node : builder_->program().nodes) {
      bool any = false;
      for (ValueId id : node.inputs) any = any || needs_[Index(id)];
      for (ValueId id : node.outputs) {
        if (any && IsFloating(builder_->program().type(id).dtype)) needs_[Index(id)] = true;
      }
    }
    grads_[Index(loss.id())] = builder_->Scalar(1, loss.dtype());
  }

  void Run() {
    const size_t nodes = NodesAtStart();
    for (size_t i = nodes; i-- > 0;) {
      // A copy: the rules append nodes, which moves the others.
      const Node node = builder_->program().nodes[i];
      if (Reached(node)) Differentiate(node);
    }
  }

  Expr grad(ValueId id) const { return grads_[Index(id)]; }

 private:
  static size_t Index(ValueId id) { return static_cast<size_t>(id); }

  // All nodes whose outputs were counted in the constructor: the loss's own constant came later.
  size_t NodesAtStart() const {
    const auto& nodes = builder_->program().nodes;
    size_t count = nodes.size();
    while (count > 0 && Index(nodes[count - 1].outputs[0]) >= grads_.size()) --count;
    return count;
  }

  bool Reached(const Node& node) const {
    bool arrives = false;
    for (ValueId id : node.outputs) arrives = arrives || grads_[Index(id)].valid();
    bool wanted = false;
    for (ValueId id : node.inputs) wanted = wanted || needs_[Index(id)];
    return arrives && wanted;
  }

  void Differentiate(const Node& node) {
    const OpSchema* schema = FindOp(node.op);
    if (schema->gradient == nullptr) return;
    std::vector<Expr> inputs, outputs, grads;
    std::vector<bool> needs;
    for (ValueId id : node.inputs) {
      inputs.emplace_back(builder_, id);
      needs.push_back(needs_[Index(id)]);
    }
    for (ValueId id : node.outputs) {
      outputs.emplace_back(builder_, id);
      grads.push_back(grads_[Index(id)]);
    }
    builder_->SetScope(node.name);
    builder_->SetDevice(node.device);
    GradientContext context(builder_, node, std::move(inputs), std::move(outputs), std::move(grads),
                            std::move(needs));
    schema->gradient(&context);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (needs_[Index(node.inputs[i])]) Accumulate(node, node.inputs[i], context.results()[i]);
    }
  }

  void Accumulate(const Node& node, ValueId id, Expr grad) {
    if (!grad.valid()) return;
    if (grad.type() != builder_->program().type(id)) {
      builder_->Fail(Internal("the gradient rule of '{}' made {} for {}", node.op,
                              TypeToString(grad.type()),
                              TypeToString(builder_->program().type(id))));
      return;
    }
    Expr& sum = grads_[Index(id)];
    sum = sum.valid() ? sum + grad : grad;
  }

  ProgramBuilder* builder_;
  std::vector<bool> needs_;  // by value
  std::vector<Expr> grads_;  // by value
};

// A variable's reads, by the nodes that make them.
struct Reads {
  Expr whole;
  std::vector<std::pair<Expr, Expr>> rows;  // keys, rows
};

std::map<int, Reads> CollectReads(ProgramBuilder* builder, VariableFilter wanted) {
  std::map<int, Reads> reads;
  for (const Node& node : builder->program().nodes) {
    if (node.op != "read" && node.op != "read_rows") continue;
    const auto variable = static_cast<int>(IntAttr(node, "variable"));
    const Expr value(builder, node.outputs[0]);
    if (!IsFloating(value.dtype())) continue;
    if (!wanted(builder->program().variables[static_cast<size_t>(variable)].name)) continue;
    if (node.op == "read") {
      reads[variable].whole = value;
    } else {
      reads[variable].rows.emplace_back(Expr(builder, node.inputs[0]), value);
    }
  }
  return reads;
}

absl::StatusOr<VariableGradient> Combine(ProgramBuilder* builder, int variable, const Reads& reads,
                                         const Sweep& sweep) {
  VariableGradient result{variable, {}, {}};
  std::vector<std::pair<Expr, Expr>> sparse;  // keys, gradient
  for (const auto& [keys, rows] : reads.rows) {
    const Expr grad = sweep.grad(rows.id());
    if (grad.valid()) sparse.emplace_back(keys, grad);
  }
  if (reads.whole.valid()) {
    result.value = sweep.grad(reads.whole.id());
    for (const auto& [keys, grad] : sparse) {
      const Expr dense = GatherGrad(grad, keys, reads.whole);
      result.value = result.value.valid() ? result.value + dense : dense;
    }
    return result;
  }
  if (sparse.size() > 1) {
    return Unimplemented(
        "variable '{}' is read by rows under {} sets of keys; concatenate the ids, so that it is "
        "read once under the keys of all",
        builder->program().variables[static_cast<size_t>(variable)].name, sparse.size());
  }
  if (sparse.size() == 1) {
    result.keys = sparse[0].first;
    result.value = sparse[0].second;
  }
  return result;
}

absl::Status CheckLoss(Expr loss) {
  if (!loss.valid()) {
    return loss.builder() != nullptr && !loss.builder()->status().ok()
               ? loss.builder()->status()
               : InvalidArgument("the loss is not a value");
  }
  const ValueType type = loss.type();
  if (!type.dims.empty() || !IsFloating(type.dtype)) {
    return InvalidArgument("the loss must be a floating scalar, not {}", TypeToString(type));
  }
  return absl::OkStatus();
}

}  // namespace

GradientContext::GradientContext(ProgramBuilder* builder, const Node& node,
                                 std::vector<Expr> inputs, std::vector<Expr> outputs,
                                 std::vector<Expr> grads, std::vector<bool> needs)
    : builder_(builder),
      node_(node),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      grads_(std::move(grads)),
      needs_(std::move(needs)),
      results_(inputs_.size()) {}

absl::StatusOr<std::vector<Expr>> Gradients(Expr loss, std::span<const Expr> wrt) {
  COHORT_RETURN_IF_ERROR(CheckLoss(loss));
  for (const Expr& x : wrt) {
    if (!x.valid() || x.builder() != loss.builder() || !IsFloating(x.dtype())) {
      return InvalidArgument("gradients are taken with respect to floating values of one program");
    }
  }
  Sweep sweep(loss, wrt);
  sweep.Run();
  loss.builder()->SetScope("");
  loss.builder()->SetDevice("");
  COHORT_RETURN_IF_ERROR(loss.builder()->status());
  std::vector<Expr> grads;
  for (const Expr& x : wrt) grads.push_back(sweep.grad(x.id()));
  return grads;
}

absl::StatusOr<std::vector<VariableGradient>> VariableGradients(ProgramBuilder* builder, Expr loss,
                                                                VariableFilter wanted) {
  COHORT_RETURN_IF_ERROR(builder->status());
  COHORT_RETURN_IF_ERROR(CheckLoss(loss));
  const std::map<int, Reads> reads = CollectReads(builder, wanted);
  std::vector<Expr> wrt;
  for (const auto& [variable, r] : reads) {
    if (r.whole.valid()) wrt.push_back(r.whole);
    for (const auto& [keys, rows] : r.rows) wrt.push_back(rows);
  }
  Sweep sweep(loss, wrt);
  sweep.Run();
  builder->SetScope("");
  builder->SetDevice("");
  std::vector<VariableGradient> gradients;
  for (const auto& [variable, r] : reads) {
    COHORT_ASSIGN_OR_RETURN(VariableGradient gradient, Combine(builder, variable, r, sweep));
    if (gradient.value.valid()) gradients.push_back(gradient);
  }
  COHORT_RETURN_IF_ERROR(builder->status());
  return gradients;
}

absl::Status PushGradients(ProgramBuilder* builder, Expr loss, VariableFilter wanted) {
  COHORT_ASSIGN_OR_RETURN(const auto gradients, VariableGradients(builder, loss, wanted));
  for (const VariableGradient& gradient : gradients) {
    builder->AddPush({gradient.variable, PushKind::kGradient, gradient.value.id(),
                      gradient.keys.valid() ? gradient.keys.id() : kNoValue, 0});
  }
  return absl::OkStatus();
}

}  // namespace cohort
