#include "common/data/images/augmentations.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/base/status.h"
#include "common/tensor/philox.h"

namespace cohort {
namespace {

using Arguments = std::map<std::string_view, v1::ConfigValue>;

// The arguments that Keras gives each (keras/src/layers/preprocessing/image_preprocessing,
// rand_augment.py and aug_mix.py).
Arguments ArgumentsOf(std::string_view name, const Augmentations& options) {
  const v1::ConfigValue factor =
      ConfigOf(std::vector<double>{options.factor.low, options.factor.high});
  const v1::ConfigValue range =
      ConfigOf(std::vector<double>{options.range.low, options.range.high});
  const v1::ConfigValue interpolation = ConfigOf(options.interpolation);
  if (name == "RandomShear") {
    return {{"x_factor", factor}, {"y_factor", factor}, {"interpolation", interpolation}};
  }
  if (name == "RandomTranslation") {
    return {{"height_factor", factor}, {"width_factor", factor}, {"interpolation", interpolation}};
  }
  if (name == "RandomRotation") return {{"factor", factor}, {"interpolation", interpolation}};
  if (name == "RandomPosterization") {
    const auto bits = std::max<int64_t>(1, static_cast<int64_t>(8 * options.factor.high));
    return {{"factor", ConfigOf(bits)}, {"value_range", range}};
  }
  if (name == "Solarization") {
    return {{"addition_factor", factor}, {"threshold_factor", factor}, {"value_range", range}};
  }
  if (name == "AutoContrast" || name == "Equalization") return {{"value_range", range}};
  return {{"factor", factor}, {"value_range", range}};
}

}  // namespace

absl::StatusOr<ImagePart> OpenImagePart(const v1::ClassConfig& config, const ImageInput& images) {
  COHORT_ASSIGN_OR_RETURN(const TransformClass* part, Transforms().Find(config.class_name()));
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig complete, CompleteConfig(part->schema, config));
  const size_t size = images.shape.elements();
  if (images.are_masks && !part->open_masks) {
    return ImagePart([size](const RecordContext&, const float* in, float* out) {
      std::copy_n(in, size, out);
      return absl::OkStatus();
    });
  }
  const FeatureType type{"", DType::kFloat32,
                         images.DimsOf(images.shape.height, images.shape.width)};
  const std::vector<FeatureType> inputs(images.are_masks ? 2 : 1, type);
  COHORT_ASSIGN_OR_RETURN(RecordTransform opened, images.are_masks
                                                      ? part->open_masks(Config(complete), inputs)
                                                      : part->open(Config(complete), inputs));
  if (opened.dtype != type.dtype || opened.dims != type.dims || !opened.apply) {
    return InvalidArgument("{} does not keep the size of images", part->schema.name);
  }
  return ImagePart([size, apply = std::move(opened.apply)](const RecordContext& context,
                                                           const float* in, float* out) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(in, size));
    return apply(context, {&bytes, 1}, std::as_writable_bytes(std::span(out, size)));
  });
}

RecordContext PartContext(const RecordContext& context, uint64_t seed, uint64_t number) {
  RecordContext part = context;
  part.random_key = PhiloxMix(PhiloxMix(context.random_key, seed), number);
  return part;
}

absl::StatusOr<std::vector<ImagePart>> Augmentations::Open(std::vector<std::string_view> names,
                                                           const ImageInput& images) const {
  std::vector<ImagePart> parts;
  for (const std::string_view name : names) {
    v1::ClassConfig config;
    config.set_class_name(std::string(name));
    for (auto& [argument, value] : ArgumentsOf(name, *this)) {
      (*config.mutable_config())[std::string(argument)] = value;
    }
    auto part = OpenImagePart(config, images);
    if (!part.ok()) return Annotate(part.status(), name);
    parts.push_back(*std::move(part));
  }
  return parts;
}

}  // namespace cohort
