#ifndef COHORT_COMMON_GRAPH_FUSE_POOLING_H_
#define COHORT_COMMON_GRAPH_FUSE_POOLING_H_

#include <absl/functional/function_ref.h>

#include <string_view>

#include "common/graph/ops/convolution.h"
#include "common/graph/program.h"

namespace cohort {

// The ops of the nodes that FusePooledConvolutions makes. Only a program that is compiled for the
// CPU has them.
//   conv_relu_pool (x, kernel, bias) -> the pooled values, and with a gradient their places: uint8,
//     what the gradient must know of the maxima. Its body: conv2d, add, relu, max_pool.
//   conv_relu_pool_grad (gradient of the pooled values, places, x) -> gradients of kernel and bias.
//     Its body: max_pool_grad, relu_grad, conv2d_kernel_grad, reduce_sum.
inline constexpr std::string_view kConvReluPool = "conv_relu_pool";
inline constexpr std::string_view kConvReluPoolGrad = "conv_relu_pool_grad";

// The most pixels of a window, whose places have numbers in one byte.
inline constexpr int64_t kMaxFusedPoolPixels = 255;

// Replaces float32 convolutions that are followed by a bias, relu and max_pool, and their
// gradients, by one node each: what lies between, the largest values of a network on images, never
// goes to memory. Results do not change by a bit, except the sign of a zero. Leaves out what else
// uses these values: a layer whose input has a gradient. Windows must be complete and must not
// overlap. `suits`: for which convolutions there is a kernel. `program` is valid.
Program FusePooledConvolutions(Program program,
                               absl::FunctionRef<bool(const ops::ConvShape&)> suits);

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_FUSE_POOLING_H_
