#ifndef COHORT_COMMON_GRAPH_MIXED_PRECISION_H_
#define COHORT_COMMON_GRAPH_MIXED_PRECISION_H_

#include <absl/status/status.h>

#include <set>
#include <string>

#include "common/base/status.h"
#include "common/graph/autodiff.h"
#include "common/graph/loss_scale.h"
#include "common/graph/op_registry.h"
#include "common/graph/program.h"
#include "common/graph/program_builder.h"
#include "common/tensor/precision.h"

namespace cohort {

// Mixed precision: the products of a program (matmul, batch_matmul, conv2d and its gradients) round
// their operands to a 16-bit type, and sum in float32. All values between the nodes stay float32.

// The attribute `precision` of a product; kFloat32 if it has none.
Precision PrecisionOf(const Node& node);
// Errors: InvalidArgument if the attribute of a product is no precision, or its operands are not
// float32. For type inference.
absl::Status CheckPrecision(const InferContext& context);

// Gives this precision to the products of float32 values in these layers (the names of nodes).
// Products of losses and metrics stay exact. Gradients have the name of their layer: call it after
// autodiff.
Program WithPrecision(Program program, Precision precision, const std::set<std::string>& layers);

// Does what PushGradients does, with a loss scale: adds it as the last argument of the program, the
// float32 scalar "loss_scale". The pushed gradients are those of `loss` itself. Call it after all
// other arguments were added.
absl::Status PushScaledGradients(ProgramBuilder* builder, Expr loss, const LossScaling& scaling,
                                 VariableFilter wanted = EveryVariable);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_MIXED_PRECISION_H_
