// StringLookup (keras/src/layers/preprocessing/string_lookup.py).
#include "common/base/status.h"
#include "common/data/lookup.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

Lookup::Options StringOptions(const Config& config) {
  Lookup::Options options{.vocabulary = config.Strings("vocabulary"),
                          .oov = config.String("oov_token")};
  if (!config.IsNone("mask_token")) options.mask = config.String("mask_token");
  return options;
}

absl::StatusOr<std::vector<double>> LookupStrings(const Config& config,
                                                  std::span<const std::string> words) {
  COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, StringOptions(config)));
  return lookup.FindAll(words);
}

absl::StatusOr<std::optional<RecordTransform>> EncodeStrings(const Config& config,
                                                             const FeatureType& numbers) {
  COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, StringOptions(config)));
  return EncodeCategories(lookup.output(), numbers);
}

}  // namespace

TransformClass StringLookupTransform() {
  std::vector<Argument> arguments = {
      Strings(
          "vocabulary",
          "The words, or a file with one in each line; none: learned from the training rows, by "
          "falling frequency.")
          .Optional(),
      String("mask_token", "A word that has number 0, and is in no vector.").Optional(),
      String("oov_token", "The word that stands for unknown ones in a vocabulary.")
          .Default(kOovToken),
      Planned(String("encoding", "texts are UTF-8").Default("utf-8"))};
  for (Argument& argument : Lookup::Arguments()) arguments.push_back(std::move(argument));
  return {.schema = {.name = "StringLookup",
                     .doc = "Words to numbers, as Keras' StringLookup; int64, or float32 vectors.",
                     .arguments = std::move(arguments)},
          .map_words = LookupStrings,
          .word_dtype = DType::kInt64,
          .encode = EncodeStrings,
          .must_adapt = [](const Config& config) { return config.Strings("vocabulary").empty(); },
          .adapt =
              [](std::span<const uint32_t> codes, std::span<const std::string> words,
                 size_t per_record, v1::ClassConfig* config) {
                return Lookup::Adapt(StringOptions(Config(*config)), codes, words, per_record,
                                     config);
              }};
}

}  // namespace cohort
