// TextVectorization (keras/src/layers/preprocessing/text_vectorization.py).
#include <algorithm>
#include <unordered_map>

#include "common/base/status.h"
#include "common/data/lookup.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

constexpr std::string_view kPunctuation = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'";

// The white space of tf.strings.split: that of ICU in UTF-8 is not split.
bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string Standardized(const Config& config, const std::string& text) {
  if (config.IsNone("standardize")) return text;
  const std::string& how = config.String("standardize");
  std::string standard;
  for (const char c : text) {
    if (how != "lower" && kPunctuation.find(c) != std::string_view::npos) continue;
    const bool upper = how != "strip_punctuation" && c >= 'A' && c <= 'Z';
    standard.push_back(upper ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return standard;
}

std::vector<std::string> Split(const Config& config, const std::string& text) {
  if (config.IsNone("split")) return {text};
  std::vector<std::string> parts;
  if (config.String("split") == "character") {
    for (const char c : text) {
      const bool continues = (static_cast<uint8_t>(c) & 0xC0) == 0x80;
      if (!continues || parts.empty()) parts.emplace_back();
      parts.back().push_back(c);
    }
    return parts;
  }
  for (size_t at = 0; at < text.size();) {
    while (at < text.size() && IsSpace(text[at])) ++at;
    const size_t begin = at;
    while (at < text.size() && !IsSpace(text[at])) ++at;
    if (at > begin) parts.push_back(text.substr(begin, at - begin));
  }
  return parts;
}

// One integer n stands for 1 to n, also in a list.
std::vector<std::string> WithNgrams(const Config& config, std::vector<std::string> tokens) {
  if (config.IsNone("ngrams")) return tokens;
  std::vector<int64_t> widths = config.Ints("ngrams");
  if (widths.size() == 1) {
    const int64_t most = widths[0];
    widths.clear();
    for (int64_t width = 1; width <= most; ++width) widths.push_back(width);
  }
  std::vector<std::string> grams;
  for (const int64_t width : widths) {
    for (size_t begin = 0; begin + static_cast<size_t>(width) <= tokens.size(); ++begin) {
      std::string gram = tokens[begin];
      for (size_t i = 1; i < static_cast<size_t>(width); ++i) gram += " " + tokens[begin + i];
      grams.push_back(std::move(gram));
    }
  }
  return grams;
}

std::vector<std::string> TokensOf(const Config& config, const std::string& text) {
  return WithNgrams(config, Split(config, Standardized(config, text)));
}

Lookup::Options TokenOptions(const Config& config) {
  return {.vocabulary = config.Strings("vocabulary"), .mask = "", .oov = kOovToken};
}

// One number for each token of a text, padded to the longest text, or to output_sequence_length.
absl::StatusOr<std::vector<double>> VectorizeTexts(const Config& config,
                                                   std::span<const std::string> texts) {
  COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, TokenOptions(config)));
  std::vector<std::vector<double>> numbers;
  size_t longest = 1;
  for (const std::string& text : texts) {
    COHORT_ASSIGN_OR_RETURN(numbers.emplace_back(), lookup.FindAll(TokensOf(config, text)));
    longest = std::max(longest, numbers.back().size());
  }
  if (!config.IsNone("output_sequence_length")) {
    longest = static_cast<size_t>(config.Int("output_sequence_length"));
  } else if (lookup.output().is_int()) {
    return InvalidArgument(
        "output_mode int needs output_sequence_length: records have one shape, and the longest "
        "text "
        "here has {} tokens",
        longest);
  }
  const double padding = lookup.output().is_int() ? 0 : -1;
  std::vector<double> all;
  all.reserve(texts.size() * longest);
  for (std::vector<double>& of_text : numbers) {
    of_text.resize(longest, padding);
    all.insert(all.end(), of_text.begin(), of_text.end());
  }
  return all;
}

absl::Status AdaptToTexts(std::span<const uint32_t> codes, std::span<const std::string> texts,
                          size_t per_record, v1::ClassConfig* config) {
  if (per_record != 1) return InvalidArgument("TextVectorization takes one text in a record");
  const Config given(*config);
  std::unordered_map<std::string, uint32_t> number_of;
  std::vector<std::string> tokens;
  std::vector<std::vector<uint32_t>> of_text;
  for (const std::string& text : texts) {
    std::vector<uint32_t>& numbers = of_text.emplace_back();
    for (const std::string& token : TokensOf(given, text)) {
      const auto [found, added] = number_of.emplace(token, static_cast<uint32_t>(tokens.size()));
      if (added) tokens.push_back(token);
      numbers.push_back(found->second);
    }
  }
  // Texts as records of the same length: the mask fills them, and does not count.
  size_t longest = 1;
  for (const auto& numbers : of_text) longest = std::max(longest, numbers.size());
  const auto padding = static_cast<uint32_t>(tokens.size());
  tokens.emplace_back();
  std::vector<uint32_t> all;
  all.reserve(codes.size() * longest);
  for (const uint32_t code : codes) {
    all.insert(all.end(), of_text[code].begin(), of_text[code].end());
    all.resize((all.size() + longest - 1) / longest * longest, padding);
    if (of_text[code].empty()) all.resize(all.size() + longest, padding);
  }
  return Lookup::Adapt(TokenOptions(given), all, tokens, longest, config);
}

}  // namespace

TransformClass TextVectorizationTransform() {
  std::vector<Argument> arguments = {
      Strings("vocabulary",
              "The tokens, or a file with one in each line; none: learned from the "
              "training rows, by falling frequency.")
          .Optional(),
      String("standardize", "What happens to a text first; none: nothing.")
          .Default("lower_and_strip_punctuation")
          .OrNone()
          .OneOf({"lower_and_strip_punctuation", "lower", "strip_punctuation"}),
      String("split", "Where tokens end; none: a text is a token.")
          .Default("whitespace")
          .OrNone()
          .OneOf({"whitespace", "character"}),
      Ints("ngrams",
           "Also tokens of several words: n for 1 to n, or a list of two lengths or more.")
          .Optional()
          .Between(1, 1000),
      Int("output_sequence_length",
          "output_mode int: numbers in a record, by cutting or padding by "
          "0.")
          .Optional()
          .AtLeast(1),
      Planned(Bool("ragged", "batches are dense").Default(false)),
      Planned(String("encoding", "texts are UTF-8").Default("utf-8"))};
  for (Argument& argument : Lookup::Arguments()) {
    const bool own =
        argument.name != "num_oov_indices" && argument.name != "invert" && argument.name != "salt";
    if (own) arguments.push_back(std::move(argument));
  }
  return {
      .schema = {.name = "TextVectorization",
                 .doc = "Texts to numbers of their tokens, as Keras' TextVectorization; int64, or "
                        "float32 vectors.",
                 .arguments = std::move(arguments)},
      .map_words = VectorizeTexts,
      .word_dtype = DType::kInt64,
      .has_rows = true,
      .encode = [](const Config& config,
                   const FeatureType& numbers) -> absl::StatusOr<std::optional<RecordTransform>> {
        COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, TokenOptions(config)));
        return EncodeCategories(lookup.output(), numbers);
      },
      .must_adapt = [](const Config& config) { return config.Strings("vocabulary").empty(); },
      .adapt = AdaptToTexts};
}

}  // namespace cohort
