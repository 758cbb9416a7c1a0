#ifndef COHORT_COMMON_DATA_IMAGES_IMAGE_INPUT_H_
#define COHORT_COMMON_DATA_IMAGES_IMAGE_INPUT_H_

#include <absl/status/statusor.h>

#include <functional>
#include <span>
#include <vector>

#include "common/data/images/image.h"
#include "common/data/transform_class.h"

namespace cohort {

// The column of images that a transform reads: [height, width, channels], or [height, width] with
// one channel.
struct ImageInput {
  DType dtype = DType::kInvalid;
  ImageShape shape;
  bool has_channels = true;
  bool are_masks = false;  // that belong to images

  // The dims of an image of another height and width.
  Dims DimsOf(int64_t height, int64_t width) const {
    return has_channels ? Dims{height, width, shape.channels} : Dims{height, width};
  }
};
// Errors: InvalidArgument for another rank.
absl::StatusOr<ImageInput> ImageInputOf(const FeatureType& input);
// The same for the inputs of TransformClass::open or open_masks, which have masks before the
// images.
absl::StatusOr<ImageInput> ImageInputOf(std::span<const FeatureType> inputs);

// A transform whose output is an image of float32, as those of Keras' layers that compute new
// pixels. `compute` gets the pixels of the input as float32.
using ComputeImage = std::function<void(const RecordContext& context, const float* in, float* out)>;
RecordTransform FloatImageTransform(const ImageInput& input, int64_t height, int64_t width,
                                    ComputeImage compute);

// The same, of a computation that may fail because it consists of other transforms.
using TryComputeImage =
    std::function<absl::Status(const RecordContext& context, const float* in, float* out)>;
RecordTransform ComposedImageTransform(const ImageInput& input, int64_t height, int64_t width,
                                       TryComputeImage compute);

// The transform with its output in another dtype, in which integers are rounded to the nearest one.
RecordTransform InDType(DType dtype, RecordTransform transform);

// Errors: InvalidArgument if masks, the first input, have another size than images, the second one.
absl::Status CheckMasks(std::span<const FeatureType> inputs);

// What happens to masks of images that `open` moves: the same, in the dtype of the masks. `open`
// gets both inputs, and takes the interpolation nearest for masks, so that their classes stay what
// they are.
std::function<TransformClass::Open> NearestMasks(TransformClass::Open* open);

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
  // A number of the standard normal distribution.
  double Normal();
  // Numbers of a Dirichlet distribution whose parameters are all `alpha`. Two of them are a number
  // of the distribution Beta(alpha, alpha), and what it lacks to 1.
  std::vector<double> Dirichlet(size_t count, double alpha);

 private:
  // The logarithm of a number of the distribution Gamma(alpha, 1).
  double LogGamma(double alpha);

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
