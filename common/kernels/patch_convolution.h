#ifndef COHORT_COMMON_KERNELS_PATCH_CONVOLUTION_H_
#define COHORT_COMMON_KERNELS_PATCH_CONVOLUTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/graph/ops/convolution.h"
#include "common/kernels/convolution.h"
#include "common/kernels/kernel.h"
#include "common/kernels/patch_convolution_float.h"

namespace cohort {

// Returns true for a convolution of few input channels, as the first of a model has: its float32
// kernels are those of this file, which are faster than oneDNN's there.
bool HasSmallPatches(const ops::ConvShape& shape);

// Where the patches of a convolution lie, with the padding of its images.
class PatchLayout {
 public:
  explicit PatchLayout(const ops::ConvShape& shape);
  PatchLayout(PatchLayout&&) = default;

  const PatchGrid& grid() const { return grid_; }
  const ops::ConvShape& shape() const { return shape_; }
  // What Padded needs; 0 if images have no padding.
  size_t padded_bytes() const { return padded_elements_ * sizeof(float); }
  // The image with its padding: itself, or a copy in `memory`.
  const float* Padded(const float* image, float* memory) const;

 private:
  ops::ConvShape shape_;
  std::vector<int64_t> offsets_;
  PatchGrid grid_;
  int64_t padded_columns_ = 0;
  size_t padded_elements_ = 0;
};

// How the gradient of a kernel is summed: by chunks of images, whose size depends on the shape and
// the capacity of the batch only. Chunks may run on several threads, and are added in order.
class ImageChunks {
 public:
  ImageChunks(const ops::ConvShape& shape, int64_t capacity);

  int64_t most() const { return most_; }
  int64_t Count(int64_t images) const { return (images + images_ - 1) / images_; }
  int64_t Begin(int64_t chunk) const { return chunk * images_; }
  int64_t End(int64_t chunk, int64_t images) const {
    return std::min(images, (chunk + 1) * images_);
  }

 private:
  int64_t images_ = 1;  // per chunk
  int64_t most_ = 1;    // chunks of a full batch
};

// conv2d or conv2d_kernel_grad of a shape that HasSmallPatches, for batches of up to `capacity`
// images.
std::unique_ptr<Kernel> MakePatchConvolution(ConvKind kind, const ops::ConvShape& shape,
                                             int64_t capacity);

// to[n] = the sum of the arrays of n floats at from, from + step, ..., in this order.
void FoldChunks(const float* from, int64_t n, int64_t step, int64_t chunks, float* to);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_PATCH_CONVOLUTION_H_
