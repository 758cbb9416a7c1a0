#ifndef COHORT_COMMON_DATA_IMAGES_IMAGE_INPUT_H_
#define COHORT_COMMON_DATA_IMAGES_IMAGE_INPUT_H_

#include <absl/status/statusor.h>

#include <functional>
#include <span>

#include "common/data/images/image.h"
#include "common/data/transform_class.h"

namespace cohort {

// The column of images that a transform reads: [height, width, channels], or [height, width] with
// one channel.
struct ImageInput {
  DType dtype = DType::kInvalid;
  ImageShape shape;
  bool has_channels = true;

  // The dims of an image of another height and width.
  Dims DimsOf(int64_t height, int64_t width) const {
    return has_channels ? Dims{height, width, shape.channels} : Dims{height, width};
  }
};
// Errors: InvalidArgument for another rank.
absl::StatusOr<ImageInput> ImageInputOf(const FeatureType& input);

// A transform whose output is an image of float32, as those of Keras' layers that compute new
// pixels. `compute` gets the pixels of the input as float32.
using ComputeImage = std::function<void(const RecordContext& context, const float* in, float* out)>;
RecordTransform FloatImageTransform(const ImageInput& input, int64_t height, int64_t width,
                                    ComputeImage compute);

// A transform that only moves pixels, which keeps the dtype. `move` gets the bytes of a pixel.
using MovePixels = std::function<void(const RecordContext& context, const std::byte* in,
                                      size_t pixel_bytes, std::byte* out)>;
RecordTransform PixelTransform(const ImageInput& input, int64_t height, int64_t width,
                               MovePixels move);

// The random numbers of a transform for one record, in the order in which they are drawn.
class RandomDraws {
 public:
  // `seed`: the argument of the transform; none counts as 0.
  RandomDraws(const RecordContext& context, uint64_t seed)
      : key_(context.random_key), seed_(seed) {}
  // A number in [low, high); `low` if they are equal.
  double Uniform(double low, double high);

 private:
  const uint64_t key_;
  const uint64_t seed_;
  uint64_t drawn_ = 0;
};

// The argument `seed` of a random transform, and its value.
Argument SeedArgument();
uint64_t SeedOf(const Config& config);

// A factor of Keras: a number f, which stands for [-|f|, |f|], or the two bounds.
struct FactorRange {
  double low = 0;
  double high = 0;
};
// Errors: InvalidArgument for another number of values.
absl::StatusOr<FactorRange> FactorOf(const Config& config, std::string_view name);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_IMAGES_IMAGE_INPUT_H_
