#ifndef COHORT_COMMON_MODEL_LAYERS_SPATIAL_H_
#define COHORT_COMMON_MODEL_LAYERS_SPATIAL_H_

#include <absl/status/statusor.h>

#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/graph/expr.h"
#include "common/model/layers/axes.h"
#include "common/model/layers/layer.h"

namespace cohort {

// What layers over volumes [batch, depth, rows, columns, channels], over images and over sequences
// [batch, steps, channels] share. `rank` is the number of axes between batch and channels, 1 to 3.
// A sequence is an image with one row.

// Returns input 0 as floatx. Error: InvalidArgument for another number of axes.
absl::StatusOr<Expr> SpatialInput(const LayerContext& context, size_t rank);

// Returns an argument of `rank` sizes; one number counts for all axes. Error: InvalidArgument.
absl::StatusOr<std::vector<int64_t>> SpatialSizes(const Config& config, std::string_view name,
                                                  size_t rank);

// Sequences to images and back: only the dims change.
Expr AsImages(Expr x);
Expr FromImages(Expr images, size_t rank);
// A kernel [taps..., inputs, outputs] as [rows, columns, inputs, outputs].
Expr AsImageKernel(Expr kernel, size_t rank);

// A convolution by Keras' arguments `strides`, `dilation_rate` and `padding`.
struct ConvWindow {
  std::array<int64_t, 2> taps = {1, 1};
  ConvOptions options;  // pads are not set
  std::string padding;  // "valid", "same", "causal"
};
// The rank is 1 or 2. Errors: InvalidArgument, also for strides together with dilation, as in
// Keras.
absl::StatusOr<ConvWindow> MakeConvWindow(const Config& config, size_t rank);
// Sets the pads for images of these sizes.
void SetPads(ConvWindow* window, const ValueType& images);

// x [batch, ..., channels] by the kernel [taps..., channels, outputs], with the arguments that
// MakeConvWindow reads. The rank is 1 to 3. Errors: InvalidArgument.
absl::StatusOr<Expr> Convolve(const Config& config, size_t rank, Expr x, Expr kernel);
absl::StatusOr<Expr> ConvolveVolumes(const Config& config, Expr x, Expr kernel);

// Error: InvalidArgument for strides above 1 together with dilations above 1.
absl::Status CheckStrides(std::span<const int64_t> strides, std::span<const int64_t> dilations);
// The zeros before and after an axis of `in` elements, for padding "same" of windows that reach
// over `reach` elements.
std::pair<int64_t, int64_t> SamePads(int64_t in, int64_t reach, int64_t stride);

// One axis of a transposed convolution: the size of its output, and the pads of the convolution
// that it is the gradient of. `extra` is output_padding, -1 for none. Errors: InvalidArgument.
struct TransposedAxis {
  int64_t size = 1, before = 0, after = 0;
};
absl::StatusOr<TransposedAxis> MakeTransposedAxis(int64_t in, int64_t taps, int64_t stride,
                                                  int64_t dilation, bool same, int64_t extra);

// activation(y + bias): `y` has the channels last. The layer has the arguments of FinishArguments.
absl::StatusOr<LayerOutput> FinishConvolution(LayerContext* context, Expr y);

// The arguments of a convolution: the first ones of the class, those that all share, and `kernels`
// as "kernel", for each of which there are an initializer, a regularizer and a constraint.
ClassSchema ConvSchema(std::string_view name, std::string_view doc, size_t rank,
                       std::vector<Argument> own, std::vector<std::string_view> kernels,
                       std::vector<std::string_view> paddings = {"valid", "same"});

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_LAYERS_SPATIAL_H_
