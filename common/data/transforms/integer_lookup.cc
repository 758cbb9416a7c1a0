// IntegerLookup (keras/src/layers/preprocessing/integer_lookup.py).
#include <memory>

#include "common/base/status.h"
#include "common/data/lookup.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

Lookup::Options IntegerOptions(const Config& config) {
  Lookup::Options options{.oov = fmt::format("{}", config.Int("oov_token")), .integers = true};
  for (const int64_t number : config.Ints("vocabulary")) {
    options.vocabulary.push_back(fmt::format("{}", number));
  }
  if (!config.IsNone("mask_token")) options.mask = fmt::format("{}", config.Int("mask_token"));
  return options;
}

absl::StatusOr<std::vector<double>> LookupIntegers(const Config& config,
                                                   std::span<const std::string> words) {
  COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, IntegerOptions(config)));
  return lookup.FindAll(words);
}

absl::StatusOr<std::optional<RecordTransform>> EncodeIntegers(const Config& config,
                                                              const FeatureType& numbers) {
  COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, IntegerOptions(config)));
  return EncodeCategories(lookup.output(), numbers);
}

absl::StatusOr<RecordTransform> OpenIntegerLookup(const Config& config,
                                                  std::span<const FeatureType> inputs) {
  if (config.Ints("vocabulary").empty()) {
    return InvalidArgument(
        "IntegerLookup learns from integers, and \"{}\" holds {}: give it a dtype of integers, or "
        "IntegerLookup its vocabulary",
        inputs[0].name, DTypeName(inputs[0].dtype));
  }
  COHORT_ASSIGN_OR_RETURN(Lookup lookup, Lookup::Create(config, IntegerOptions(config)));
  const auto shared = std::make_shared<const Lookup>(std::move(lookup));
  return CategoryTransform(shared->output(), inputs[0], DType::kInt64,
                           [shared](const CategoryInput& input) {
                             return shared->Find(fmt::format("{}", input.integer));
                           });
}

}  // namespace

TransformClass IntegerLookupTransform() {
  std::vector<Argument> arguments = {
      Ints(
          "vocabulary",
          "The integers, or a file with one in each line; none: learned from the training rows, by "
          "falling frequency.")
          .Optional(),
      Int("mask_token", "An integer that has number 0, and is in no vector.").Optional(),
      Int("oov_token", "The integer that stands for unknown ones in a vocabulary.").Default(-1),
      String("oov_method", "How several num_oov_indices are chosen.")
          .Default("floormod")
          .OneOf({"floormod", "farmhash"}),
      Planned(String("vocabulary_dtype", "integers are int64").Default("int64"))};
  for (Argument& argument : Lookup::Arguments()) arguments.push_back(std::move(argument));
  return {
      .schema = {.name = "IntegerLookup",
                 .doc = "Integers to numbers from 0 on, as Keras' IntegerLookup; int64, or float32 "
                        "vectors.",
                 .arguments = std::move(arguments)},
      .open = OpenIntegerLookup,
      .map_words = LookupIntegers,
      .word_dtype = DType::kInt64,
      .integers_are_words = true,
      .encode = EncodeIntegers,
      .must_adapt = [](const Config& config) { return config.Ints("vocabulary").empty(); },
      .adapt =
          [](std::span<const uint32_t> codes, std::span<const std::string> words, size_t per_record,
             v1::ClassConfig* config) {
            return Lookup::Adapt(IntegerOptions(Config(*config)), codes, words, per_record, config);
          }};
}

}  // namespace cohort
