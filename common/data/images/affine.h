#ifndef COHORT_COMMON_DATA_IMAGES_AFFINE_H_
#define COHORT_COMMON_DATA_IMAGES_AFFINE_H_

#include <array>
#include <functional>
#include <vector>

#include "common/data/images/image.h"
#include "common/data/images/image_input.h"
#include "common/data/images/resize.h"

namespace cohort {

class Config;
struct Argument;

// What lies outside of an image.
enum class FillMode {
  kReflect,   // d c b a | a b c d | d c b a
  kWrap,      // a b c d | a b c d | a b c d
  kConstant,  // k k k k | a b c d | k k k k
  kNearest    // a a a a | a b c d | d d d d
};

// That of a name, which a schema has checked.
FillMode FillModeOf(std::string_view name);

struct AffineOptions {
  FillMode fill_mode = FillMode::kReflect;
  float fill_value = 0;  // for kConstant
  Interpolation interpolation = Interpolation::kBilinear;
};

// The output pixel (x, y) is the input at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), both
// divided by m[6] x + m[7] y + 1. The last two are 0 unless the transform is a perspective.
using AffineMatrix = std::array<float, 8>;
// A rotation around the center, counterclockwise for positive angles in radians.
AffineMatrix RotationMatrix(const ImageShape& shape, float angle);
// Around the center; factors above 1 make what the image shows smaller.
AffineMatrix ZoomMatrix(const ImageShape& shape, float height_zoom, float width_zoom);

// The perspective that shows at the corners `end` what the image has at `start`: both are the x and
// y of four points. No change if there is none, because points lie on one line.
using FourPoints = std::array<double, 8>;
AffineMatrix PerspectiveMatrix(const FourPoints& start, const FourPoints& end);

// As ImageProjectiveTransformV3 of TensorFlow, which Keras calls
// (tensorflow/core/kernels/image/image_ops.h). `out` has the shape of the input.
void AffineTransform(const float* pixels, const ImageShape& shape, const AffineMatrix& matrix,
                     const AffineOptions& options, float* out);

// Adds the arguments of Keras' random layers that use AffineTransform to `others`, with the seed.
std::vector<Argument> AffineArguments(std::vector<Argument> others);

// The transform of such a layer. `draw` makes the matrix of a record of training; in evaluation
// images stay as they are.
RecordTransform RandomAffine(const ImageInput& input, const Config& config,
                             std::function<AffineMatrix(RandomDraws* draws)> draw);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_AFFINE_H_
