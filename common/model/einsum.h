#ifndef COHORT_COMMON_MODEL_EINSUM_H_
#define COHORT_COMMON_MODEL_EINSUM_H_

#include <absl/status/statusor.h>

#include <span>
#include <string_view>

#include "common/graph/program_builder.h"

namespace cohort {

// Einstein's summation by NumPy's notation: "btd,dhk->bthk", also with an ellipsis and without an
// output. It is composed of transpositions, sums and products of matrices. The operands have one
// floating dtype. Errors: InvalidArgument for subscripts that do not suit the operands, and for an
// axis that one operand names twice.
absl::StatusOr<Expr> Einsum(std::string_view subscripts, std::span<const Expr> operands);

// numpy.matmul: the products of the matrices in the last two axes, with broadcasting before them.
absl::StatusOr<Expr> MatMulOfAnyRank(Expr a, Expr b);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_EINSUM_H_
