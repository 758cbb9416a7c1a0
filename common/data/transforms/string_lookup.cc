// StringLookup (keras/src/layers/preprocessing/string_lookup.py).
#include "common/base/status.h"
#include "common/data/lookup.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

bool MustAdaptLookup(const Config& config) { return config.Strings("vocabulary").empty(); }

absl::Status AdaptLookup(std::span<const uint32_t> codes, std::span<const std::string> words,
                         v1::ClassConfig* config) {
  (*config->mutable_config())["vocabulary"] = ConfigOf(AdaptVocabulary(codes, words));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> LookupWords(const Config& config,
                                                std::span<const std::string> words) {
  COHORT_ASSIGN_OR_RETURN(const auto ids, LookupIds(words, config.Strings("vocabulary")));
  return std::vector<double>(ids.begin(), ids.end());
}

}  // namespace

TransformClass StringLookupTransform() {
  return {
      .schema = {.name = "StringLookup",
                 .doc = "Words to numbers, as Keras' StringLookup; int64. 0 stands for all "
                        "unknown words.",
                 .arguments = {Strings("vocabulary",
                                       "The words, from number 1 on; none: learned from the "
                                       "training rows, by falling frequency.")
                                   .Optional(),
                               Planned(Int("num_oov_indices", "").Default(1)),
                               Planned("max_tokens"), Planned("mask_token"),
                               Planned(String("oov_token", "").Default(kOovToken)),
                               Planned("idf_weights"), Planned(Bool("invert", "").Default(false)),
                               Planned(String("output_mode", "").Default("int")),
                               Planned(Bool("pad_to_max_tokens", "").Default(false)),
                               Planned(Bool("sparse", "").Default(false)),
                               Planned(String("encoding", "").Default("utf-8"))}},
      .map_words = LookupWords,
      .word_dtype = DType::kInt64,
      .must_adapt = MustAdaptLookup,
      .adapt = AdaptLookup};
}

}  // namespace cohort
