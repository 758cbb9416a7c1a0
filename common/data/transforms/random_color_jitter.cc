// RandomColorJitter (keras/src/layers/preprocessing/image_preprocessing/random_color_jitter.py).
#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/data/images/augmentations.h"

namespace cohort {
namespace {

// In the order in which they change an image.
constexpr std::pair<const char*, const char*> kJitters[] = {
    {"brightness_factor", "RandomBrightness"},
    {"contrast_factor", "RandomContrast"},
    {"saturation_factor", "RandomSaturation"},
    {"hue_factor", "RandomHue"}};

absl::StatusOr<RecordTransform> OpenRandomColorJitter(const Config& config,
                                                      std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  std::vector<ImagePart> parts;
  for (const auto& [argument, name] : kJitters) {
    if (config.IsNone(argument)) continue;
    const v1::ClassConfig part = ClassOf(
        name, {{"factor", config.Value(argument)}, {"value_range", config.Value("value_range")}});
    auto opened = OpenImagePart(part, input);
    if (!opened.ok()) return Annotate(opened.status(), argument);
    parts.push_back(*std::move(opened));
  }
  return ComposedImageTransform(
      input, input.shape.height, input.shape.width,
      [parts = std::move(parts), seed = SeedOf(config), size = input.shape.elements()](
          const RecordContext& context, const float* in, float* out) {
        std::copy_n(in, size, out);
        if (!context.training) return absl::OkStatus();
        std::vector<float> before;
        for (size_t i = 0; i < parts.size(); ++i) {
          before.assign(out, out + size);
          COHORT_RETURN_IF_ERROR(parts[i](PartContext(context, seed, i), before.data(), out));
        }
        return absl::OkStatus();
      });
}

Argument JitterFactor(const char* name, const char* of) {
  return Floats(name, fmt::format("The `factor` of {}; none: without it.", of))
      .Optional()
      .Between(-1, 1);
}

}  // namespace

TransformClass RandomColorJitterTransform() {
  return {.schema = {.name = "RandomColorJitter",
                     .doc = "Changes brightness, contrast, saturation and hue of each image at "
                            "random, as Keras' RandomColorJitter; float32. In evaluation: nothing.",
                     .arguments = {ValueRangeArgument(),
                                   JitterFactor("brightness_factor", "RandomBrightness"),
                                   JitterFactor("contrast_factor", "RandomContrast"),
                                   JitterFactor("saturation_factor", "RandomSaturation"),
                                   JitterFactor("hue_factor", "RandomHue"), SeedArgument()}},
          .for_images = true,
          .open = OpenRandomColorJitter};
}

}  // namespace cohort
