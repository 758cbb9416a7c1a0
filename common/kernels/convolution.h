#ifndef COHORT_COMMON_KERNELS_CONVOLUTION_H_
#define COHORT_COMMON_KERNELS_CONVOLUTION_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "common/graph/ops/convolution.h"
#include "common/kernels/kernel.h"

namespace cohort {

// The three ops of one convolution.
enum class ConvKind : uint8_t { kForward, kInputGrad, kKernelGrad };

// A float32 convolution by oneDNN, for batches of up to `capacity` images. Errors: Internal if
// oneDNN has no primitive for it.
absl::StatusOr<std::unique_ptr<Kernel>> MakeOneDnnConvolution(ConvKind kind,
                                                              const ops::ConvShape& shape,
                                                              int64_t capacity);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_CONVOLUTION_H_
