#ifndef COHORT_COMMON_GRAPH_OPS_FAMILIES_H_
#define COHORT_COMMON_GRAPH_OPS_FAMILIES_H_

#include <vector>

#include "common/graph/op_registry.h"

namespace cohort::ops {

// The families of ops, one file each. op_registry.cc puts them together.
std::vector<OpSchema> LeafOps();     // input, read, read_rows, constant
std::vector<OpSchema> BinaryOps();   // add .. minimum, greater, equal, logical_and, select
std::vector<OpSchema> UnaryOps();    // neg .. tanh, erf, softplus, clip, cast
std::vector<OpSchema> MatmulOps();   // matmul, batch_matmul
std::vector<OpSchema> ShapeOps();    // reshape, concat, slice, transpose
std::vector<OpSchema> ReduceOps();   // reduce_sum, reduce_max, broadcast_like, dim_size, argmax
std::vector<OpSchema> LookupOps();   // unique, gather, gather_grad
std::vector<OpSchema> SoftmaxOps();  // softmax, log_softmax, sparsemax
std::vector<OpSchema> CrossEntropyOps();  // sigmoid_ and sparse_softmax_cross_entropy, in_top_k
std::vector<OpSchema> RandomOps();        // dropout, random_normal
std::vector<OpSchema> PoolingOps();       // max_pool, avg_pool, their gradients
std::vector<OpSchema> ConvolutionOps();   // conv2d, conv2d_input_grad, conv2d_kernel_grad
std::vector<OpSchema> BatchNormOps();     // batch_norm_train, batch_norm_grad

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
absl::Status InferSameFloating(const InferContext& context, std::vector<ValueType>* outputs);

// OpSchema::flops of ops that only move elements.
double NoFlops(const Program& program, const Node& node);
// One operation per element of input 0.
double FlopsPerInput(const Program& program, const Node& node);

}  // namespace cohort::ops

#endif  // COHORT_COMMON_GRAPH_OPS_FAMILIES_H_
