// Resizing (keras/src/layers/preprocessing/image_preprocessing/resizing.py).
#include <cmath>

#include "common/base/status.h"
#include "common/data/convert.h"
#include "common/data/images/image_input.h"
#include "common/data/images/resize.h"
#include "common/data/release_if_large.h"

namespace cohort {
namespace {

// The same image in another dtype, as Keras: integers are rounded to the nearest one.
RecordTransform InDType(DType dtype, RecordTransform floats) {
  if (dtype == DType::kFloat32) return floats;
  const auto count = static_cast<size_t>(NumElements(floats.dims));
  Dims dims = floats.dims;
  return {dtype, std::move(dims),
          [dtype, count, floats = std::move(floats)](
              const RecordContext& context, std::span<const std::span<const std::byte>> values,
              std::span<std::byte> output) {
            thread_local std::vector<float> pixels;
            const ReleaseIfLarge release(&pixels);
            pixels.resize(count);
            COHORT_RETURN_IF_ERROR(
                floats.apply(context, values, std::as_writable_bytes(std::span<float>(pixels))));
            if (!IsFloating(dtype)) {
              for (float& pixel : pixels) pixel = std::nearbyint(pixel);
            }
            ConvertNumbers(DType::kFloat32, pixels.data(), dtype, output.data(), count);
            return absl::OkStatus();
          }};
}

absl::StatusOr<RecordTransform> OpenResizing(const Config& config,
                                             std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  const int64_t height = config.Int("height"), width = config.Int("width");
  const ImageBox box = config.Bool("crop_to_aspect_ratio")
                           ? BoxOfAspectRatio(input.shape, height, width)
                           : WholeImage(input.shape);
  return InDType(input.dtype,
                 FloatImageTransform(input, height, width,
                                     [=, shape = input.shape,
                                      how = InterpolationOf(config.String("interpolation"))](
                                         const RecordContext&, const float* in, float* out) {
                                       ResizeImage(in, shape, box, height, width, how, out);
                                     }));
}

}  // namespace

TransformClass ResizingTransform() {
  return {
      .schema = {.name = "Resizing",
                 .doc = "Images of another size, as Keras' Resizing; integers are rounded.",
                 .arguments = {Int("height", "Of the result, in pixels.").Between(1, 1 << 14),
                               Int("width", "Likewise.").Between(1, 1 << 14),
                               String("interpolation", "How pixels are computed.")
                                   .Default("bilinear")
                                   .OneOf({"bilinear", "nearest"}),
                               Bool("crop_to_aspect_ratio",
                                    "True: crops images to the new aspect ratio, which otherwise "
                                    "distorts them.")
                                   .Default(false),
                               Planned(Bool("pad_to_aspect_ratio", "").Default(false)),
                               Planned(Bool("antialias", "").Default(false))}},
      .open = OpenResizing};
}

}  // namespace cohort
