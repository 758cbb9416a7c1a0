// Resizing (keras/src/layers/preprocessing/image_preprocessing/resizing.py).
#include <algorithm>
#include <vector>

#include "common/base/status.h"
#include "common/data/images/crop.h"
#include "common/data/images/resize.h"

namespace cohort {
namespace {

// Pixels that are added on both sides to give an image the aspect ratio of the result.
struct Borders {
  int64_t rows = 0;
  int64_t columns = 0;
  float value = 0;
};

Borders BordersFor(const ImageShape& shape, int64_t height, int64_t width, double value) {
  const auto wanted = [](int64_t other, int64_t to, int64_t of) {
    return static_cast<int64_t>(static_cast<float>(other * to) / static_cast<float>(of));
  };
  return {.rows = std::max<int64_t>(0, wanted(shape.width, height, width) - shape.height) / 2,
          .columns = std::max<int64_t>(0, wanted(shape.height, width, height) - shape.width) / 2,
          .value = static_cast<float>(value)};
}

std::vector<float> PadImage(const float* pixels, const ImageShape& shape, const Borders& borders) {
  const auto left = static_cast<size_t>(borders.columns * shape.channels);
  const auto row_size = static_cast<size_t>(shape.width * shape.channels);
  const size_t padded_row = row_size + 2 * left;
  std::vector<float> padded(padded_row * static_cast<size_t>(shape.height + 2 * borders.rows),
                            borders.value);
  float* out = padded.data() + static_cast<size_t>(borders.rows) * padded_row + left;
  for (int64_t row = 0; row < shape.height; ++row, pixels += row_size, out += padded_row) {
    std::copy_n(pixels, row_size, out);
  }
  return padded;
}

absl::StatusOr<RecordTransform> OpenResizing(const Config& config,
                                             std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs));
  const int64_t height = config.Int("height"), width = config.Int("width");
  const bool crops = config.Bool("crop_to_aspect_ratio"), pads = config.Bool("pad_to_aspect_ratio");
  if (crops && pads) {
    return InvalidArgument("crop_to_aspect_ratio and pad_to_aspect_ratio exclude each other");
  }
  const Borders borders =
      pads ? BordersFor(input.shape, height, width, config.Float("fill_value")) : Borders{};
  ImageShape padded = input.shape;
  padded.height += 2 * borders.rows;
  padded.width += 2 * borders.columns;
  const ImageBox box = crops ? BoxOfAspectRatio(input.shape, height, width) : WholeImage(padded);
  const Interpolation how = InterpolationFor(input, config);
  return InDType(input.dtype,
                 FloatImageTransform(
                     input, height, width,
                     [=, shape = input.shape](const RecordContext&, const float* in, float* out) {
                       std::vector<float> with_borders;
                       if (padded != shape) {
                         with_borders = PadImage(in, shape, borders);
                         in = with_borders.data();
                       }
                       ResizeImage(in, padded, box, height, width, how, out);
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
                               Bool("pad_to_aspect_ratio",
                                    "True: adds borders to images for the new aspect ratio.")
                                   .Default(false),
                               String("fill_mode", "What borders have: `fill_value`.")
                                   .Default("constant")
                                   .OneOf({"constant"}),
                               Float("fill_value", "The number of borders.").Default(0.0),
                               Planned(Bool("antialias", "").Default(false))}},
      .for_images = true,
      .open = OpenResizing,
      .open_masks = NearestMasks(OpenResizing)};
}

}  // namespace cohort
