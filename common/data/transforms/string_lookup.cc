// StringLookup (keras/src/layers/preprocessing/string_lookup.py).
#include "common/data/lookup.h"
#include "common/data/numbers.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::Status CheckWords(const Column& column) {
  if (column.is_text()) return absl::OkStatus();
  return InvalidArgument("column \"{}\" holds numbers, a string lookup needs words", column.name);
}

bool MustAdaptLookup(const Config& config) { return config.Strings("vocabulary").empty(); }

absl::Status AdaptLookup(const Column& column, v1::ClassConfig* config) {
  COHORT_RETURN_IF_ERROR(CheckWords(column));
  v1::ConfigValue& vocabulary = (*config->mutable_config())["vocabulary"];
  vocabulary.clear_value();
  v1::ConfigList* const words = vocabulary.mutable_list();
  for (const std::string& word : AdaptVocabulary(*column.codes, *column.words)) {
    words->add_values()->set_s(word);
  }
  return absl::OkStatus();
}

absl::StatusOr<Column> LookupColumn(const Config& config, uint64_t records,
                                    std::span<const Column> inputs) {
  const Column& input = inputs[0];
  COHORT_RETURN_IF_ERROR(CheckWords(input));
  COHORT_ASSIGN_OR_RETURN(const auto ids, LookupIds(*input.words, config.Strings("vocabulary")));
  std::vector<int64_t> values;
  values.reserve(input.codes->size());
  for (const uint32_t code : *input.codes) values.push_back(ids[code]);
  return ColumnOf(values, DType::kInt64, DType::kInt64, input.dims);
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
      .transform_columns = LookupColumn,
      .reads_words = true,
      .must_adapt = MustAdaptLookup,
      .adapt = AdaptLookup};
}

}  // namespace cohort
