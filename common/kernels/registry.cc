#include <dnnl.h>
#include <hwy/base.h>
#include <hwy/highway.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>

#include "common/base/status.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/kernel.h"

namespace cohort {
namespace {

struct KernelEntry {
  std::string_view op;
  KernelFactory create;
};

// In alphabetical order.
constexpr KernelEntry kCpuKernels[] = {
    {"abs", CreateUnaryCpu},
    {"add", CreateBinaryCpu},
    {"argmax", CreateArgmaxCpu},
    {"avg_pool", CreatePoolingCpu},
    {"avg_pool_grad", CreatePoolingCpu},
    {"batch_matmul", CreateMatMulCpu},
    {"batch_norm_grad", CreateBatchNormCpu},
    {"batch_norm_train", CreateBatchNormCpu},
    {"broadcast_like", CreateBroadcastLikeCpu},
    {"cast", CreateCastCpu},
    {"clip", CreateUnaryCpu},
    {"clip_grad", CreateUnaryCpu},
    {"concat", CreateConcatCpu},
    {"conv2d", CreateConvolutionCpu},
    {"conv2d_input_grad", CreateConvolutionCpu},
    {"conv2d_kernel_grad", CreateConvolutionCpu},
    {"conv_relu_pool", CreatePooledConvolutionCpu},
    {"conv_relu_pool_grad", CreatePooledConvolutionCpu},
    {"dim_size", CreateDimSizeCpu},
    {"div", CreateBinaryCpu},
    {"dropout", CreateDropoutCpu},
    {"equal", CreateBinaryCpu},
    {"erf", CreateUnaryCpu},
    {"exp", CreateUnaryCpu},
    {"floor", CreateUnaryCpu},
    {"fused", CreateFusedCpu},
    {"gather", CreateGatherCpu},
    {"gather_grad", CreateGatherGradCpu},
    {"greater", CreateBinaryCpu},
    {"in_top_k", CreateInTopKCpu},
    {"log", CreateUnaryCpu},
    {"log_softmax", CreateSoftmaxCpu},
    {"logical_and", CreateBinaryCpu},
    {"matmul", CreateMatMulCpu},
    {"max_pool", CreatePoolingCpu},
    {"max_pool_grad", CreatePoolingCpu},
    {"maximum", CreateBinaryCpu},
    {"minimum", CreateBinaryCpu},
    {"mul", CreateBinaryCpu},
    {"neg", CreateUnaryCpu},
    {"random_normal", CreateRandomNormalCpu},
    {"reduce_max", CreateReduceCpu},
    {"reduce_sum", CreateReduceCpu},
    {"relu", CreateUnaryCpu},
    {"relu_grad", CreateUnaryCpu},
    {"select", CreateSelectCpu},
    {"sigmoid", CreateUnaryCpu},
    {"sigmoid_cross_entropy", CreateSigmoidCrossEntropyCpu},
    {"slice", CreateSliceCpu},
    {"softmax", CreateSoftmaxCpu},
    {"softplus", CreateUnaryCpu},
    {"sparse_softmax_cross_entropy", CreateSparseSoftmaxCrossEntropyCpu},
    {"sparsemax", CreateSparsemaxCpu},
    {"sqrt", CreateUnaryCpu},
    {"square", CreateUnaryCpu},
    {"sub", CreateBinaryCpu},
    {"tanh", CreateUnaryCpu},
    {"transpose", CreateTransposeCpu},
    {"unique", CreateUniqueCpu},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> CreateKernel(const Node& node, const Program& program) {
  const auto entry = std::ranges::lower_bound(kCpuKernels, node.op, {}, &KernelEntry::op);
  if (entry == std::end(kCpuKernels) || entry->op != node.op) {
    return Unimplemented("op \"{}\" has no CPU kernel", node.op);
  }
  return RoundOperands(node, program, entry->create(node, program));
}

std::vector<std::string_view> KernelOps() {
  std::vector<std::string_view> ops;
  for (const KernelEntry& entry : kCpuKernels) ops.push_back(entry.op);
  return ops;
}

std::string_view CpuInstructionSet() {
  const int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();
  return hwy::TargetName(best);
}

std::string CpuLibraries() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("onednn {}.{}.{}, highway {}.{}.{}", v->major, v->minor, v->patch, HWY_MAJOR,
                     HWY_MINOR, HWY_PATCH);
}

}  // namespace cohort
