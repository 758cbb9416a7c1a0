// conv2d: x[n, rows, columns, c], kernel[taps, taps, c / groups, o] -> y[n, rows, columns, o].
// conv2d_input_grad: (grad like y, kernel) -> like x. conv2d_kernel_grad: (x, grad) -> like kernel.
//
// float32 by oneDNN (convolution_onednn.cc), or for images of few channels patch_convolution.h.
// float64 by the loops of devices. Each element of a result is summed by one thread in one order.
#include "common/kernels/convolution.h"
#include "common/kernels/cpu_kernels.h"
#include "common/kernels/device_kernel.h"
#include "common/kernels/patch_convolution.h"

namespace cohort {

KernelOr CreateConvolutionCpu(const Node& node, const Program& program) {
  const ValueType& first = program.type(node.inputs[0]);
  if (first.dtype != DType::kFloat32)
    return OnCpu(simulated::CreateConvolutionLoops(node, program));
  COHORT_ASSIGN_OR_RETURN(const ops::ConvShape shape,
                          ops::MakeConvShape(node, first, program.type(node.inputs[1])));
  const ConvKind kind = ConvKindOf(node);
  if (kind != ConvKind::kInputGrad && HasSmallPatches(shape)) {
    return MakePatchConvolution(kind, shape, first.dims[0].size);
  }
  return MakeOneDnnConvolution(kind, shape, first.dims[0].size);
}

}  // namespace cohort
