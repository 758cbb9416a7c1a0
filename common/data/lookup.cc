#include "common/data/lookup.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/data/csv_reader.h"
#include "common/data/hashing.h"

namespace cohort {
namespace {

// Greater words first; integers by their value.
bool IsGreater(const std::string& a, const std::string& b, bool integers) {
  int64_t left = 0, right = 0;
  if (integers && ParseInteger(a, &left) && ParseInteger(b, &right)) return left > right;
  return a > b;
}

// The words without `special` ones, by falling frequency.
std::vector<uint32_t> ByFrequency(std::span<const uint64_t> counts,
                                  std::span<const std::string> words,
                                  std::span<const std::string> special, bool integers) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < words.size(); ++i) {
    if (counts[i] == 0 || std::ranges::find(special, words[i]) != special.end()) continue;
    order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : IsGreater(words[a], words[b], integers);
  });
  return order;
}

// TextVectorization has no such argument.
int64_t OovIndices(const Config& config) {
  return config.Has("num_oov_indices") ? config.Int("num_oov_indices") : 1;
}

absl::StatusOr<std::string> Canonical(const std::string& word) {
  int64_t number = 0;
  if (ParseInteger(word, &number)) return fmt::format("{}", number);
  return InvalidArgument("\"{}\" is not an integer: use StringLookup", word.substr(0, 60));
}

// Gives spellings of one integer, such as "01" and "1", one number. Errors: those of Canonical.
absl::Status MergeIntegers(std::vector<std::string>* words, std::vector<uint32_t>* number_of_code) {
  std::unordered_map<std::string, uint32_t> numbers;
  std::vector<std::string> merged;
  for (size_t i = 0; i < words->size(); ++i) {
    COHORT_ASSIGN_OR_RETURN(const std::string word, Canonical((*words)[i]));
    const auto [found, added] = numbers.emplace(word, static_cast<uint32_t>(merged.size()));
    if (added) merged.push_back(word);
    (*number_of_code)[i] = found->second;
  }
  *words = std::move(merged);
  return absl::OkStatus();
}

}  // namespace

void WordCounts::Resize(size_t words) {
  counts_.resize(words);
  with_.resize(words);
  last_.resize(words, ~uint64_t{0});
}

void WordCounts::Add(uint32_t word, uint64_t times) {
  counts_[word] += times;
  if (std::exchange(last_[word], texts_) != texts_) with_[word] += times;
}

void WordCounts::EndRecords(uint64_t records) {
  records_ += records;
  ++texts_;
}

int64_t HashBucket(std::string_view word, int64_t buckets, const HashKey& key) {
  const uint64_t hash = key.has_value() ? SipHash(*key, word) : Fingerprint(word);
  return static_cast<int64_t>(hash % static_cast<uint64_t>(buckets));
}

Argument SaltArgument() {
  return Ints("salt", "One or two integers: the key of SipHash, instead of FarmHash.").Optional();
}

absl::StatusOr<HashKey> KeyOfSalt(const Config& config) {
  if (!config.Has("salt")) return HashKey();
  const std::vector<int64_t> salt = config.Ints("salt");
  if (salt.empty() || salt.size() > 2) {
    return InvalidArgument("salt is one integer or two, not {}", salt.size());
  }
  return HashKey({static_cast<uint64_t>(salt.front()), static_cast<uint64_t>(salt.back())});
}

std::vector<Argument> Lookup::Arguments() {
  return {
      Int("num_oov_indices",
          "Numbers for unknown words, by a hash if there are several; 0: they are an error.")
          .Default(1)
          .Between(0, 1'000'000),
      Int("max_tokens", "Most numbers: adapt keeps the most frequent words.").Optional().AtLeast(2),
      OutputModeArgument("int", {"int", "one_hot", "multi_hot", "count", "tf_idf"}),
      Floats("idf_weights", "The weights of the vocabulary's words for tf_idf; none: learned.")
          .Optional(),
      Bool("pad_to_max_tokens", "Vectors have max_tokens elements.").Default(false),
      Planned(Bool("invert", "words do not enter a model").Default(false)),
      SparseArgument(),
      SaltArgument()};
}

absl::StatusOr<Lookup> Lookup::Create(const Config& config, Options options) {
  Lookup made;
  made.output_.mode = config.String("output_mode");
  made.oov_indices_ = OovIndices(config);
  const bool has_mask = options.mask.has_value() && made.output_.is_int();
  made.first_oov_ = has_mask ? 1 : 0;
  COHORT_ASSIGN_OR_RETURN(made.key_, KeyOfSalt(config));
  if (options.integers) made.by_remainder_ = config.String("oov_method") == "floormod";
  if (made.by_remainder_ && made.key_.has_value()) {
    return InvalidArgument("salt needs `oov_method: farmhash`");
  }
  std::vector<std::string> special(has_mask ? 1 : 0, options.mask.value_or(""));
  special.insert(special.end(), static_cast<size_t>(made.oov_indices_), options.oov);
  std::span<const std::string> words = options.vocabulary;
  const bool has_special = !special.empty() && words.size() >= special.size() &&
                           std::equal(special.begin(), special.end(), words.begin());
  if (has_special) words = words.subspan(special.size());
  if (words.empty()) return InvalidArgument("the vocabulary is empty");
  auto number = static_cast<int64_t>(special.size());
  for (std::string word : words) {
    if (options.integers) {
      COHORT_ASSIGN_OR_RETURN(word, Canonical(word));
    }
    if (word == options.oov) {
      return InvalidArgument("\"{}\" stands for unknown words and may only be the first", word);
    }
    if (options.mask.has_value() && word == *options.mask) {
      return InvalidArgument("\"{}\" is the mask and may only be the first", word);
    }
    if (!made.numbers_.emplace(word, number++).second) {
      return InvalidArgument("the vocabulary has \"{}\" twice", word);
    }
  }
  made.output_.depth = number;
  const bool has_most = !config.IsNone("max_tokens");
  if (has_most && number > config.Int("max_tokens")) {
    return InvalidArgument(
        "the vocabulary with its special words has {} words, and max_tokens is {}", number,
        config.Int("max_tokens"));
  }
  if (config.Bool("pad_to_max_tokens")) {
    if (!has_most) return InvalidArgument("pad_to_max_tokens needs max_tokens");
    made.output_.depth = config.Int("max_tokens");
  }
  if (made.output_.mode == "tf_idf") {
    const std::vector<double> weights = config.Floats("idf_weights");
    if (weights.size() != (has_special ? options.vocabulary.size() : words.size())) {
      return InvalidArgument("idf_weights has {} weights for {} words", weights.size(),
                             words.size());
    }
    const double mean =
        std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
    if (!has_special) made.output_.weights.assign(special.size(), static_cast<float>(mean));
    made.output_.weights.insert(made.output_.weights.end(), weights.begin(), weights.end());
    made.output_.weights.resize(static_cast<size_t>(made.output_.depth));
  }
  made.options_ = std::move(options);
  return made;
}

absl::Status Lookup::Adapt(const Options& options, std::span<const uint32_t> codes,
                           std::span<const std::string> words, size_t per_record,
                           v1::ClassConfig* config) {
  std::vector<std::string> tokens(words.begin(), words.end());
  std::vector<uint32_t> number_of_code(words.size());
  std::iota(number_of_code.begin(), number_of_code.end(), 0U);
  if (options.integers) COHORT_RETURN_IF_ERROR(MergeIntegers(&tokens, &number_of_code));
  WordCounts counts;
  counts.Resize(tokens.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    counts.Add(number_of_code[codes[i]], 1);
    if ((i + 1) % per_record == 0) counts.EndRecords(1);
  }
  return AdaptToCounts(options, tokens, counts, config);
}

absl::Status Lookup::AdaptToCounts(const Options& options, std::span<const std::string> words,
                                   const WordCounts& counts, v1::ClassConfig* config) {
  std::vector<std::string> special = {options.oov};
  if (options.mask.has_value()) special.push_back(*options.mask);
  std::vector<uint32_t> order = ByFrequency(counts.counts(), words, special, options.integers);
  const Config given(*config);
  if (!given.IsNone("max_tokens")) {
    const bool has_mask = options.mask.has_value() && given.String("output_mode") == "int";
    const int64_t most = given.Int("max_tokens") - OovIndices(given) - (has_mask ? 1 : 0);
    order.resize(std::min(order.size(), static_cast<size_t>(std::max<int64_t>(most, 0))));
  }
  v1::ConfigValue vocabulary;
  for (const uint32_t i : order) {
    int64_t number = 0;
    const bool is_number = options.integers && ParseInteger(words[i], &number);
    *vocabulary.mutable_list()->add_values() = is_number ? ConfigOf(number) : ConfigOf(words[i]);
  }
  if (given.String("output_mode") == "tf_idf") {
    v1::ConfigValue weights;
    const auto records = static_cast<double>(counts.records());
    for (const uint32_t i : order) {
      const auto with = static_cast<double>(counts.records_with()[i]);
      *weights.mutable_list()->add_values() = ConfigOf(std::log(1 + records / (1 + with)));
    }
    (*config->mutable_config())["idf_weights"] = std::move(weights);
  }
  (*config->mutable_config())["vocabulary"] = std::move(vocabulary);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Lookup::Find(std::string_view given) const {
  std::string word(given);
  if (options_.integers) {
    COHORT_ASSIGN_OR_RETURN(word, Canonical(word));
  }
  if (options_.mask.has_value() && word == *options_.mask) return output_.is_int() ? 0 : -1;
  const auto found = numbers_.find(word);
  if (found != numbers_.end()) return found->second;
  if (oov_indices_ == 0) {
    return InvalidArgument(
        "\"{}\" is not in the vocabulary, and num_oov_indices is 0; with 1 there is a number for "
        "unknown words",
        word.substr(0, 60));
  }
  if (oov_indices_ == 1) return first_oov_;
  int64_t number = 0;
  if (by_remainder_ && ParseInteger(word, &number)) {
    return first_oov_ + ((number % oov_indices_) + oov_indices_) % oov_indices_;
  }
  return first_oov_ + HashBucket(word, oov_indices_, key_);
}

absl::StatusOr<std::vector<double>> Lookup::FindAll(std::span<const std::string> words) const {
  std::vector<double> numbers;
  numbers.reserve(words.size());
  for (const std::string& word : words) {
    COHORT_ASSIGN_OR_RETURN(const int64_t number, Find(word));
    numbers.push_back(static_cast<double>(number));
  }
  return numbers;
}

}  // namespace cohort
