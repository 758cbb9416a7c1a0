#ifndef COHORT_COMMON_GRAPH_AUTODIFF_H_
#define COHORT_COMMON_GRAPH_AUTODIFF_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/graph/program_builder.h"

namespace cohort {

// Graph-to-graph differentiation in reverse: the backward pass is ordinary ops, appended to the
// program that is being built. Every op's rule stands beside its schema (common/graph/ops).

// The inputs of the gradient rule of one node, and its results.
class GradientContext {
 public:
  GradientContext(ProgramBuilder* builder, const Node& node, std::vector<Expr> inputs,
                  std::vector<Expr> outputs, std::vector<Expr> grads, std::vector<bool> needs);

  ProgramBuilder* builder() const { return builder_; }
  const Node& node() const { return node_; }
  size_t num_inputs() const { return inputs_.size(); }
  Expr input(size_t i) const { return inputs_[i]; }
  Expr output(size_t i = 0) const { return outputs_[i]; }
  // The gradient of the loss with respect to output i; no value if no gradient flows.
  Expr grad(size_t i = 0) const { return grads_[i]; }
  // Returns true if the gradient with respect to input i is needed.
  bool needs(size_t i) const { return needs_[i]; }
  // Sets the gradient with respect to input i, of the same type. Not called: no gradient flows.
  void Set(size_t i, Expr grad) { results_[i] = grad; }
  const std::vector<Expr>& results() const { return results_; }

 private:
  ProgramBuilder* builder_;
  const Node& node_;
  std::vector<Expr> inputs_;
  std::vector<Expr> outputs_;
  std::vector<Expr> grads_;
  std::vector<bool> needs_;
  std::vector<Expr> results_;
};

// Adds the gradients of the scalar `loss` with respect to values of the program. A gradient is no
// value if the loss does not depend on it, as after an op without a gradient rule (dim_size,
// comparisons, argmax). Errors: InvalidArgument (the loss is not a floating scalar), or the error
// that ProgramBuilder kept.
absl::StatusOr<std::vector<Expr>> Gradients(Expr loss, std::span<const Expr> wrt);

// The gradient with respect to a variable.
struct VariableGradient {
  int variable = 0;  // index into Program::variables
  Expr value;        // dense: the variable's shape. Sparse: [U, ...]
  Expr keys;         // sparse: int64 [U], no key twice; no value: dense
};

// Returns true for the names of the variables whose gradients are wanted.
using VariableFilter = absl::FunctionRef<bool(std::string_view variable)>;
inline bool EveryVariable(std::string_view) { return true; }

// Adds the gradients of `loss` with respect to every wanted variable that is read and has a
// floating dtype, in order of the variables. A variable that is read by rows has a sparse gradient;
// one that is read both whole and by rows has a dense one. Variables on which the loss does not
// depend are left out. Errors: as above, and Unimplemented if a variable is read by rows under two
// sets of keys (read it once, under the keys of both).
absl::StatusOr<std::vector<VariableGradient>> VariableGradients(
    ProgramBuilder* builder, Expr loss, VariableFilter wanted = EveryVariable);

// Adds one gradient push for each of these variables. `loss` is the *summed* loss; pass its divisor
// to ProgramBuilder::SetLoss.
absl::Status PushGradients(ProgramBuilder* builder, Expr loss,
                           VariableFilter wanted = EveryVariable);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_AUTODIFF_H_
