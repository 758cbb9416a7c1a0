// TextVectorization (keras/src/layers/preprocessing/text_vectorization.py).
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "common/base/status.h"
#include "common/data/category.h"
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

// A vector of a text needs nothing but its tokens, however long other texts are.
bool IsRagged(const Config& config) {
  const std::string& mode = config.String("output_mode");
  return mode != "int" && mode != "one_hot";
}

// One number for each token of a text, padded to the longest text, or to output_sequence_length.
absl::StatusOr<std::vector<double>> PadTexts(const Config& config,
                                             std::span<const std::string> texts) {
  COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, TokenOptions(config)));
  const bool is_int = lookup.output().is_int();
  size_t length = 1;
  if (!config.IsNone("output_sequence_length")) {
    length = static_cast<size_t>(config.Int("output_sequence_length"));
  } else {
    for (const std::string& text : texts) length = std::max(length, TokensOf(config, text).size());
    if (is_int) {
      return InvalidArgument(
          "output_mode int needs output_sequence_length: records have one shape, and the longest "
          "text here has {} tokens",
          length);
    }
  }
  std::vector<double> all;
  all.reserve(texts.size() * length);
  for (const std::string& text : texts) {
    std::vector<std::string> tokens = TokensOf(config, text);
    tokens.resize(std::min(tokens.size(), length));
    COHORT_ASSIGN_OR_RETURN(const std::vector<double> numbers, lookup.FindAll(tokens));
    all.insert(all.end(), numbers.begin(), numbers.end());
    all.resize(all.size() + length - numbers.size(), is_int ? 0 : -1);
  }
  return all;
}

absl::StatusOr<std::vector<double>> VectorizeTexts(const Config& config,
                                                   std::span<const std::string> texts) {
  if (!IsRagged(config)) return PadTexts(config, texts);
  // Which text it is; EncodeTexts has the tokens of each.
  std::vector<double> numbers(texts.size());
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}

// The numbers of the tokens of several texts.
struct TokenTable {
  std::vector<int64_t> numbers;
  std::vector<size_t> ends;  // in `numbers`, by text

  std::span<const int64_t> Of(size_t text) const {
    const size_t begin = text == 0 ? 0 : ends[text - 1];
    return std::span(numbers).subspan(begin, ends[text] - begin);
  }
};

absl::StatusOr<std::optional<RecordTransform>> EncodeTexts(const Config& config,
                                                           std::span<const std::string> texts,
                                                           const FeatureType& numbers) {
  COHORT_ASSIGN_OR_RETURN(const Lookup lookup, Lookup::Create(config, TokenOptions(config)));
  if (!IsRagged(config)) return EncodeCategories(lookup.output(), numbers);
  auto table = std::make_shared<TokenTable>();
  for (const std::string& text : texts) {
    for (const std::string& token : TokensOf(config, text)) {
      COHORT_ASSIGN_OR_RETURN(table->numbers.emplace_back(), lookup.Find(token));
    }
    table->ends.push_back(table->numbers.size());
  }
  RecordTransform transform{.dtype = DType::kFloat32, .dims = numbers.dims};
  // map_words gives each text one number, which is the last axis.
  transform.dims.back() = lookup.output().depth;
  transform.apply = [table = std::shared_ptr<const TokenTable>(std::move(table)),
                     output = lookup.output()](const RecordContext&,
                                               std::span<const std::span<const std::byte>> values,
                                               std::span<std::byte> to) -> absl::Status {
    const size_t bytes = static_cast<size_t>(output.depth) * sizeof(float);
    for (size_t i = 0; i < to.size() / bytes; ++i) {
      int64_t text = 0;
      std::memcpy(&text, values[0].data() + i * sizeof(text), sizeof(text));
      COHORT_RETURN_IF_ERROR(
          WriteVector(output, table->Of(static_cast<size_t>(text)), to.subspan(i * bytes, bytes)));
    }
    return absl::OkStatus();
  };
  return transform;
}

absl::Status AdaptToTexts(std::span<const uint32_t> codes, std::span<const std::string> texts,
                          size_t per_record, v1::ClassConfig* config) {
  if (per_record != 1) return InvalidArgument("TextVectorization takes one text in a record");
  const Config given(*config);
  std::vector<uint64_t> records(texts.size());
  for (const uint32_t code : codes) ++records[code];
  std::unordered_map<std::string, uint32_t> number_of;
  std::vector<std::string> tokens;
  WordCounts counts;
  for (size_t text = 0; text < texts.size(); ++text) {
    for (std::string& token : TokensOf(given, texts[text])) {
      const auto [found, added] = number_of.emplace(token, static_cast<uint32_t>(tokens.size()));
      if (added) {
        tokens.push_back(std::move(token));
        counts.Resize(tokens.size());
      }
      counts.Add(found->second, records[text]);
    }
    counts.EndRecords(records[text]);
  }
  return Lookup::AdaptToCounts(TokenOptions(given), tokens, counts, config);
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
      .encode_words = EncodeTexts,
      .must_adapt = [](const Config& config) { return config.Strings("vocabulary").empty(); },
      .adapt = AdaptToTexts};
}

}  // namespace cohort
