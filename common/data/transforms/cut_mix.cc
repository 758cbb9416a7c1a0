// CutMix (keras/src/layers/preprocessing/image_preprocessing/cut_mix.py).
#include <cmath>
#include <cstring>

#include "common/base/status.h"
#include "common/data/images/colors.h"
#include "common/data/images/mix.h"

namespace cohort {
namespace {

constexpr double kLeastAlpha = 1e-6;

absl::StatusOr<DrawMix> DrawCutMix(const Config& config, const ImageShape& shape) {
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  return DrawMix([factor, shape](RandomDraws* draws, size_t records) {
    BatchMix mix;
    const double alpha = draws->Uniform(factor.low, factor.high) + kLeastAlpha;
    const auto width = static_cast<float>(shape.width), height = static_cast<float>(shape.height);
    for (size_t i = 0; i < records; ++i) {
      const auto ratio = static_cast<float>(std::sqrt(draws->Dirichlet(2, alpha)[0]));
      ImagePartBox box;
      box.left = static_cast<float>(draws->Uniform(0, 1)) * (width - ratio * width);
      box.top = static_cast<float>(draws->Uniform(0, 1)) * (height - ratio * height);
      box.right = box.left + ratio * width;
      box.bottom = box.top + ratio * height;
      mix.boxes.push_back(box);
      mix.weights.push_back(1 - (box.right - box.left) * (box.bottom - box.top) / (width * height));
    }
    mix.partners = DrawPartners(draws, records);
    return mix;
  });
}

// Images and masks keep their dtype.
absl::StatusOr<RecordTransform> OpenCutMix(const Config& config,
                                           std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(DrawMix draw, DrawCutMix(config, input.shape));
  const size_t pixel_bytes = static_cast<size_t>(input.shape.channels) * SizeOf(input.dtype);
  return RecordTransform{
      .dtype = inputs[0].dtype,
      .dims = inputs[0].dims,
      .apply_batch = [pixel_bytes, shape = input.shape, seed = SeedOf(config),
                      draw = std::move(draw)](const RecordContext& context, size_t records,
                                              std::span<const std::byte> in,
                                              std::span<std::byte> out) {
        if (!context.training) {
          std::memcpy(out.data(), in.data(), out.size());
          return absl::OkStatus();
        }
        RandomDraws draws(context, seed);
        PasteBoxes(draw(&draws, records), in.data(), shape, pixel_bytes, out.data());
        return absl::OkStatus();
      }};
}

absl::StatusOr<RecordTransform> OpenCutMixOfMasks(const Config& config,
                                                  std::span<const FeatureType> inputs) {
  COHORT_RETURN_IF_ERROR(CheckMasks(inputs));
  return OpenCutMix(config, inputs.first(1));
}

absl::StatusOr<RecordTransform> OpenCutMixOfLabels(const Config& config,
                                                   std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput images, ImageInputOf(inputs[1]));
  COHORT_ASSIGN_OR_RETURN(DrawMix draw, DrawCutMix(config, images.shape));
  return BlendTransform(inputs[0], SeedOf(config), std::move(draw));
}

}  // namespace

TransformClass CutMixTransform() {
  return {.schema = {.name = "CutMix",
                     .doc = "Replaces a random rectangle of each image by that of another image of "
                            "the batch, and blends their labels, as Keras' CutMix. In evaluation: "
                            "none.",
                     .arguments = {Floats("factor",
                                          "The share of the rectangle is that of a distribution "
                                          "Beta(a, a), with a random a in [0, factor], or between "
                                          "both bounds.")
                                       .Default(std::vector<double>{1.0})
                                       .Between(0, 1),
                                   SeedArgument()}},
          .for_images = true,
          .open = OpenCutMix,
          .open_masks = OpenCutMixOfMasks,
          .open_labels = OpenCutMixOfLabels};
}

}  // namespace cohort
