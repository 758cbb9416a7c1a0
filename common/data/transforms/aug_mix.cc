// AugMix (keras/src/layers/preprocessing/image_preprocessing/aug_mix.py). Keras chooses the
// augmentations once for a batch, this transform for each record, so that a record does not depend
// on its batch.
#include <algorithm>

#include "common/base/status.h"
#include "common/data/images/augmentations.h"

namespace cohort {
namespace {

struct AugMixOptions {
  size_t chains = 3;
  size_t depth = 3;
  double alpha = 1;
  uint64_t seed = 0;
  ValueRange range;
};

// One record.
absl::Status MixChains(const AugMixOptions& options, const std::vector<ImagePart>& parts,
                       const RecordContext& context, std::span<const float> in,
                       std::span<float> out) {
  RandomDraws draws(context, options.seed);
  const std::vector<double> of_chain = draws.Dirichlet(options.chains, options.alpha);
  const auto of_image = static_cast<float>(draws.Dirichlet(2, options.alpha)[0]);
  std::vector<float> mixed(in.size()), chain, before;
  uint64_t number = 0;
  for (size_t i = 0; i < options.chains; ++i) {
    chain.assign(in.begin(), in.end());
    for (size_t step = 0; step < options.depth; ++step, ++number) {
      // One choice more than there are augmentations: none.
      const auto chosen =
          static_cast<size_t>(draws.Uniform(0, static_cast<double>(parts.size() + 1)));
      if (chosen == parts.size()) continue;
      before = chain;
      COHORT_RETURN_IF_ERROR(
          parts[chosen](PartContext(context, options.seed, number), before.data(), chain.data()));
    }
    const auto weight = static_cast<float>(of_chain[i]);
    for (size_t at = 0; at < in.size(); ++at) mixed[at] += weight * chain[at];
  }
  for (size_t at = 0; at < in.size(); ++at) {
    out[at] = options.range.Clip(of_image * in[at] + (1 - of_image) * mixed[at]);
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordTransform> OpenAugMix(const Config& config,
                                           std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const ImageInput input, ImageInputOf(inputs[0]));
  COHORT_ASSIGN_OR_RETURN(const FactorRange factor, PositiveFactorOf(config, "factor"));
  AugMixOptions options = {.chains = static_cast<size_t>(config.Int("num_chains")),
                           .depth = static_cast<size_t>(config.Int("chain_depth")),
                           .alpha = config.Float("alpha"),
                           .seed = SeedOf(config)};
  COHORT_ASSIGN_OR_RETURN(options.range, ValueRangeOf(config));
  std::vector<std::string_view> names = {
      "RandomShear",  "RandomTranslation", "RandomRotation", "RandomPosterization",
      "Solarization", "AutoContrast",      "Equalization"};
  if (config.Bool("all_ops")) {
    names.insert(names.end(), {"RandomBrightness", "RandomColorDegeneration", "RandomContrast",
                               "RandomSharpness"});
  }
  const Augmentations augmentations = {factor, options.range, config.String("interpolation")};
  COHORT_ASSIGN_OR_RETURN(std::vector<ImagePart> parts,
                          augmentations.Open(std::move(names), input));
  return ComposedImageTransform(
      input, input.shape.height, input.shape.width,
      [options, parts = std::move(parts), size = input.shape.elements()](
          const RecordContext& context, const float* in, float* out) {
        if (context.training) return MixChains(options, parts, context, {in, size}, {out, size});
        std::copy_n(in, size, out);
        return absl::OkStatus();
      });
}

absl::StatusOr<RecordTransform> RefuseMasks(const Config&, std::span<const FeatureType>) {
  return InvalidArgument(
      "AugMix blends an image with others that have moved, and the classes of a mask cannot be "
      "blended: use RandAugment");
}

}  // namespace

TransformClass AugMixTransform() {
  return {
      .schema =
          {.name = "AugMix",
           .doc = "Blends an image with several chains of random augmentations of it, as "
                  "Keras' AugMix. Each image has its own; float32. In evaluation: none.",
           .arguments =
               {ValueRangeArgument(),
                Int("num_chains", "How many chains.").Default(3).Between(1, 100),
                Int("chain_depth", "The most augmentations in a chain.").Default(3).Between(0, 100),
                Floats("factor", "How strong they are: a number f for [0, f], or both bounds.")
                    .Default(std::vector<double>{0.3})
                    .Between(0, 1),
                Float("alpha", "The parameter of the distributions of the weights.")
                    .Default(1.0)
                    .Between(1e-6, 1e6),
                Bool("all_ops",
                     "False: only those that AutoContrast, Equalization, posterization, "
                     "rotation, shear, solarization and translation make.")
                    .Default(true),
                String("interpolation", "How moved pixels are computed.")
                    .Default("bilinear")
                    .OneOf({"bilinear", "nearest"}),
                SeedArgument()}},
      .for_images = true,
      .open = OpenAugMix,
      .open_masks = RefuseMasks};
}

}  // namespace cohort
