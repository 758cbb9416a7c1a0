// FactorizationMachine: the second-order term of a factorization machine (Rendle, 2010, equation 3
// in the form of lemma 3.1), in which each field of a record has one vector.
#include "common/graph/expr.h"
#include "common/model/layers/fields.h"

namespace cohort {
namespace {

absl::StatusOr<LayerOutput> BuildFactorizationMachine(LayerContext* context) {
  COHORT_ASSIGN_OR_RETURN(const Expr v, FieldVectors(*context));
  const Expr pairs = Square(ReduceSum(v, {1})) - ReduceSum(Square(v), {1});
  return ReduceSum(pairs, {1}, true) * 0.5;
}

}  // namespace

LayerClass FactorizationMachineLayer() {
  return {.schema = LayerSchema(
              "FactorizationMachine",
              "The sum of the dot products of each two vectors of a record, [batch, 1]: sum(0.5 "
              "((sum v)^2 - sum v^2)). An input has one vector, [batch, d], or several, "
              "[batch, fields, d].",
              {}),
          .max_inputs = kAnyNumberOfInputs,
          .build = BuildFactorizationMachine};
}

}  // namespace cohort
