#include "common/model/layers/scale_and_center.h"

#include "common/graph/expr.h"
#include "common/model/regularizers.h"
#include "common/optimizers/constraints.h"

namespace cohort {

std::vector<Argument> ScaleAndCenterArguments() {
  return {Bool("center", "False: no beta.").Default(true),
          Bool("scale", "False: no gamma.").Default(true),
          InitializerArgument("beta_initializer", "Zeros", "First beta, which is added."),
          InitializerArgument("gamma_initializer", "Ones", "First gamma, a factor."),
          RegularizerArgument("beta_regularizer"),
          RegularizerArgument("gamma_regularizer"),
          ConstraintArgument("beta_constraint"),
          ConstraintArgument("gamma_constraint")};
}

absl::StatusOr<Expr> ScaleAndCenter(LayerContext* context, Expr x, const std::vector<int64_t>& dims,
                                    const std::vector<int64_t>& broadcast) {
  if (context->config.Bool("scale")) {
    COHORT_ASSIGN_OR_RETURN(const Expr gamma, context->Weight("gamma", dims, "gamma_initializer"));
    x = x * (broadcast == dims ? gamma : Reshape(gamma, broadcast));
  }
  if (context->config.Bool("center")) {
    COHORT_ASSIGN_OR_RETURN(const Expr beta, context->Weight("beta", dims, "beta_initializer"));
    x = x + (broadcast == dims ? beta : Reshape(beta, broadcast));
  }
  return x;
}

}  // namespace cohort
