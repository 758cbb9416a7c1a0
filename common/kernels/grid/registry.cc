#include "common/kernels/grid/grid.h"

namespace cohort::COHORT_GRID {
namespace {

struct Entry {
  std::string_view op;
  DeviceKernelOr (*create)(const Node& node, const Program& program);
};

// In alphabetical order. Without `unique`, whose counts the host must know before a step runs, and
// `fused`, which a program for a device does not have.
constexpr Entry kKernels[] = {
    {"abs", CreateUnary},
    {"add", CreateBinary},
    {"argmax", CreateRows},
    {"avg_pool", CreatePooling},
    {"avg_pool_grad", CreatePooling},
    {"batch_matmul", CreateMatMul},
    {"batch_norm_grad", CreateBatchNorm},
    {"batch_norm_train", CreateBatchNorm},
    {"broadcast_like", CreateShape},
    {"cast", CreateUnary},
    {"clip", CreateUnary},
    {"clip_grad", CreateUnary},
    {"concat", CreateShape},
    {"conv2d", CreateConvolution},
    {"conv2d_input_grad", CreateConvolution},
    {"conv2d_kernel_grad", CreateConvolution},
    {"dim_size", CreateShape},
    {"div", CreateBinary},
    {"dropout", CreateRandom},
    {"equal", CreateBinary},
    {"erf", CreateUnary},
    {"exp", CreateUnary},
    {"floor", CreateUnary},
    {"gather", CreateLookup},
    {"gather_grad", CreateLookup},
    {"greater", CreateBinary},
    {"in_top_k", CreateRows},
    {"log", CreateUnary},
    {"log_softmax", CreateRows},
    {"logical_and", CreateBinary},
    {"matmul", CreateMatMul},
    {"max_pool", CreatePooling},
    {"max_pool_grad", CreatePooling},
    {"maximum", CreateBinary},
    {"minimum", CreateBinary},
    {"mul", CreateBinary},
    {"neg", CreateUnary},
    {"random_normal", CreateRandom},
    {"reduce_max", CreateReduce},
    {"reduce_sum", CreateReduce},
    {"relu", CreateUnary},
    {"relu_grad", CreateUnary},
    {"select", CreateBinary},
    {"sigmoid", CreateUnary},
    {"sigmoid_cross_entropy", CreateBinary},
    {"slice", CreateShape},
    {"softmax", CreateRows},
    {"softplus", CreateUnary},
    {"sparse_softmax_cross_entropy", CreateRows},
    {"sparsemax", CreateRows},
    {"sqrt", CreateUnary},
    {"square", CreateUnary},
    {"sub", CreateBinary},
    {"tanh", CreateUnary},
    {"transpose", CreateShape},
};

}  // namespace

DeviceKernelOr CreateGridKernel(const Node& node, const Program& program) {
  const auto entry = std::ranges::lower_bound(kKernels, node.op, {}, &Entry::op);
  if (entry == std::end(kKernels) || entry->op != node.op) {
    return Unimplemented("op \"{}\" has no kernel for devices", node.op);
  }
  return entry->create(node, program);
}

}  // namespace cohort::COHORT_GRID
