#ifndef COHORT_COMMON_GRAPH_OPS_FAMILIES_H_
#define COHORT_COMMON_GRAPH_OPS_FAMILIES_H_

#include <vector>

#include "common/graph/op_registry.h"

namespace cohort::ops {

// The families of ops: those of the column `schema` of ops.def, one file each.
#define OP(name, schema, cpu, grid, form, doc) std::vector<OpSchema> schema##Ops();
#include "common/graph/ops.def"
inline std::vector<OpSchema> NoneOps() { return {}; }

// Checks that inferences share. Errors: InvalidArgument that names the input.
absl::Status CheckFloating(const InferContext& context, size_t input);
absl::Status CheckDType(const InferContext& context, size_t input, DType dtype);
absl::Status CheckSameDType(const InferContext& context, size_t a, size_t b);
absl::Status CheckRank(const InferContext& context, size_t input, size_t rank);
absl::Status CheckAxis(const InferContext& context, size_t input, int64_t axis);
// That the last axis exists and is static.
absl::Status CheckLastAxisStatic(const InferContext& context, size_t input);
// The dims of NumPy broadcasting: aligned at the last axis, equal or 1 (a static 1).
absl::StatusOr<std::vector<Dim>> BroadcastDims(const ValueType& a, const ValueType& b);
// The output has the input's type.
absl::StatusOr<Types> InferSameFloating(const InferContext& context);

// OpSchema::flops of ops that only move elements.
double NoFlops(const Program& program, const Node& node);
// One operation per element of input 0.
double FlopsPerInput(const Program& program, const Node& node);

}  // namespace cohort::ops

#endif  // COHORT_COMMON_GRAPH_OPS_FAMILIES_H_
