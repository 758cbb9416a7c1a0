#ifndef COHORT_COMMON_KERNELS_CONVOLUTION_H_
#define COHORT_COMMON_KERNELS_CONVOLUTION_H_

#include <absl/status/statusor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/graph/ops/convolution.h"
#include "common/kernels/kernel.h"

namespace cohort {

// The three ops of one convolution.
enum class ConvKind : uint8_t { kForward, kInputGrad, kKernelGrad };

inline ConvKind ConvKindOf(const Node& node) {
  if (node.op == "conv2d") return ConvKind::kForward;
  return node.op == "conv2d_input_grad" ? ConvKind::kInputGrad : ConvKind::kKernelGrad;
}

// Scratch memory begins at cache lines.
constexpr size_t AlignScratch(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The parts of a batch of up to `capacity` images that may run on several threads; less work than a
// part is not split.
inline int64_t ConvParts(const ops::ConvShape& s, int64_t capacity) {
  constexpr int64_t kMaxParts = 16;
  constexpr int64_t kPartMultiplications = 1 << 19;
  const int64_t work = capacity * s.axes[0].out * s.axes[1].out * s.kernel_elements();
  return std::clamp<int64_t>(work / kPartMultiplications, 1,
                             std::clamp<int64_t>(capacity, 1, kMaxParts));
}

// The most chunks of images whose kernel gradients are summed apart, and then added in order.
inline constexpr int64_t kMaxConvChunks = 8;

// A float32 convolution by oneDNN, for batches of up to `capacity` images. Errors: Internal if
// oneDNN has no primitive for it.
absl::StatusOr<std::unique_ptr<Kernel>> MakeOneDnnConvolution(ConvKind kind,
                                                              const ops::ConvShape& shape,
                                                              int64_t capacity);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_CONVOLUTION_H_
