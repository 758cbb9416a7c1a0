#ifndef COHORT_COMMON_KERNELS_PATCH_CONVOLUTION_FLOAT_H_
#define COHORT_COMMON_KERNELS_PATCH_CONVOLUTION_FLOAT_H_

#include <cstdint>

namespace cohort {

// Vector code for float32 convolutions with small patches: all that one output sees of an image.
// Vectors lie along the output channels, whose number is a multiple of kChannelsOfPatches.
inline constexpr int64_t kChannelsOfPatches = 16;

// Where patches lie in an image whose padding is part of it. Steps are in floats.
struct PatchGrid {
  int64_t columns = 0;               // outputs of a row
  int64_t row_step = 0;              // between the patches of two rows
  int64_t column_step = 0;           // between the patches of two columns
  int64_t patch = 0;                 // elements of a patch
  const int64_t* offsets = nullptr;  // where these elements lie, from the first
  int64_t channels = 0;              // outputs of a pixel
};

// y[rows, columns, channels] = the products of the patches from output row `first_row` on with
// kernel[patch, channels]. Each sum is in order of the patch, each product added with one rounding
// if the processor can.
void PatchForwardFloat(const PatchGrid& grid, const float* image, int64_t first_row, int64_t rows,
                       const float* kernel, float* y);

// kernel[patch, channels] += the products of patches and grad[rows, columns, channels], in order of
// rows and columns.
void PatchKernelGradFloat(const PatchGrid& grid, const float* image, int64_t first_row,
                          int64_t rows, const float* grad, float* kernel);

// Windows of max_pool that do not overlap and are complete, one row of them.
struct PoolGrid {
  int64_t windows = 0;      // in the row
  int64_t rows = 0;         // in a window
  int64_t columns = 0;      // in a window; rows x columns <= 255
  int64_t column_step = 0;  // pixels between two windows
  int64_t row_pixels = 0;   // pixels of a row of x
  int64_t channels = 0;
};

// The place of a maximum that is not positive, or is NaN: no gradient passes relu there.
inline constexpr uint8_t kNoPlace = 255;

// y[windows, channels] = the maximum of relu(x + bias) in each window, as the kernels of add, relu
// and max_pool compute it. places (like y; may be null): the number of the first maximum's pixel in
// the window, or kNoPlace.
void BiasReluMaxPoolFloat(const PoolGrid& grid, const float* x, const float* bias, float* y,
                          uint8_t* places);

// PatchForwardFloat and BiasReluMaxPoolFloat in one, for windows of two rows and two columns beside
// each other. The rows of the convolution begin with `first_row`.
void PatchForwardPooledFloat(const PatchGrid& grid, const float* image, int64_t first_row,
                             int64_t windows, const float* kernel, const float* bias, float* y,
                             uint8_t* places);

// dx[rows, row_pixels, channels]: the gradient of each window at its place, and 0 at its other
// pixels. Pixels of no window are not written.
void ScatterToPlacesFloat(const PoolGrid& grid, const float* grad, const uint8_t* places,
                          float* dx);

// sums[channels] += the elements of dx, in order of its pixels.
void AddPlacedFloat(const PoolGrid& grid, const float* grad, const uint8_t* places, float* sums);

}  // namespace cohort

#endif  // COHORT_COMMON_KERNELS_PATCH_CONVOLUTION_FLOAT_H_
