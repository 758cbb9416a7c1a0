#include <array>
#include <utility>

#include "common/base/status.h"
#include "common/data/source_class.h"
#include "common/data/table.h"
#include "common/tensor/philox.h"

namespace cohort {
namespace {

// https://www.tensorflow.org/tutorials/distribute/parameter_server_training, "Define dataset"
constexpr std::array<const char*, 7> kWords = {"avenger",   "ironman",  "batman",      "hulk",
                                               "spiderman", "kingkong", "wonder_woman"};
constexpr uint32_t kAvenger = 0;
constexpr size_t kFeatures = 3;
// Records are generated once and kept: 16 bytes each.
constexpr double kMaxRecords = 1 << 28;

// Three distinct words, drawn as random.sample does: in order, without replacement.
std::array<uint32_t, kFeatures> Draw(uint64_t seed, uint64_t index) {
  const PhiloxBlock random = Philox(index, /*counter_high=*/0, seed);
  std::array<uint32_t, kWords.size()> words;
  for (uint32_t i = 0; i < words.size(); ++i) words[i] = i;
  std::array<uint32_t, kFeatures> drawn;
  for (uint32_t i = 0; i < kFeatures; ++i) {
    std::swap(words[i], words[i + random[i] % (words.size() - i)]);
    drawn[i] = words[i];
  }
  return drawn;
}

// Reviews of films: up to kReviewWords words, and "" after the last one.
constexpr std::array<const char*, 14> kReviewVocabulary = {
    "",  "the",  "film", "plot", "actor", "music", "was",
    "a", "very", "not",  "good", "great", "bad",   "awful"};
constexpr uint32_t kNot = 9, kGood = 10, kBad = 12;
constexpr size_t kReviewWords = 24, kFewestReviewWords = 6;

// What a word says, after the word before it.
int Opinion(uint32_t word, uint32_t before) {
  constexpr std::array<int, 4> kOpinions = {1, 2, -1, -2};
  const int opinion = word < kGood ? 0 : kOpinions[word - kGood];
  return before == kNot ? -opinion : opinion;
}

struct Review {
  std::array<uint32_t, kReviewWords> words = {};
  bool positive = false;
};

Review DrawReview(uint64_t seed, uint64_t index) {
  Review review;
  const size_t count = kFewestReviewWords + Philox(index, /*counter_high=*/1, seed)[0] %
                                                (kReviewWords - kFewestReviewWords + 1);
  int sum = 0;
  uint32_t before = 0;
  for (size_t i = 0; i < count; ++i) {
    const PhiloxBlock random = Philox(index, /*counter_high=*/2 + i / 4, seed);
    review.words[i] = 1 + random[i % 4] % (kReviewVocabulary.size() - 1);
    // A review without an opinion ends with one.
    if (i + 1 == count && sum + Opinion(review.words[i], before) == 0) {
      review.words[i] = random[i % 4] % 2 == 0 ? kGood : kBad;
    }
    sum += Opinion(review.words[i], before);
    before = review.words[i];
  }
  review.positive = sum > 0;
  return review;
}

// A column of words, by their numbers.
template <size_t N>
Column WordColumn(std::string name, Dims dims, std::vector<uint32_t> codes,
                  const std::array<const char*, N>& words) {
  Column column;
  column.name = std::move(name);
  column.dims = std::move(dims);
  column.codes = std::make_shared<const std::vector<uint32_t>>(std::move(codes));
  column.words = std::make_shared<const std::vector<std::string>>(words.begin(), words.end());
  return column;
}

Table Reviews(uint64_t seed, const RowRange& rows) {
  std::vector<uint32_t> words, labels;
  words.reserve(rows.take * kReviewWords);
  labels.reserve(rows.take);
  for (uint64_t i = 0; i < rows.take; ++i) {
    const Review review = DrawReview(seed, rows.skip + i);
    words.insert(words.end(), review.words.begin(), review.words.end());
    labels.push_back(review.positive ? 1 : 0);
  }
  Table table;
  table.records = rows.take;
  table.columns.push_back(WordColumn("words", {static_cast<int64_t>(kReviewWords)},
                                     std::move(words), kReviewVocabulary));
  table.columns.push_back(WordColumn("label", {}, std::move(labels),
                                     std::array<const char*, 2>{"negative", "positive"}));
  return table;
}

absl::StatusOr<Table> GenerateTable(const Config& config, const SourceContext& context,
                                    const TableRequest& request) {
  const auto seed = static_cast<uint64_t>(config.Int("seed"));
  COHORT_ASSIGN_OR_RETURN(const RowRange rows,
                          ClampRange(request.range, static_cast<uint64_t>(config.Int("records"))));
  if (config.String("name") == "reviews") return Reviews(seed, rows);
  std::vector<uint32_t> features;
  std::vector<uint32_t> labels;
  features.reserve(rows.take * kFeatures);
  labels.reserve(rows.take);
  for (uint64_t i = 0; i < rows.take; ++i) {
    bool avenger = false;
    for (const uint32_t word : Draw(seed, rows.skip + i)) {
      features.push_back(word);
      avenger = avenger || word == kAvenger;
    }
    labels.push_back(avenger ? 0 : 1);
  }
  Table table;
  table.records = rows.take;
  table.columns.push_back(
      WordColumn("features", {static_cast<int64_t>(kFeatures)}, std::move(features), kWords));
  table.columns.push_back(
      WordColumn("label", {}, std::move(labels), std::array<const char*, 2>{"yes", "no"}));
  return table;
}

}  // namespace

SourceClass GeneratorSource() {
  return {
      .schema = {.name = "generator",
                 .doc = "Records that are computed from (seed, index). `recommender` is the "
                        "dataset of TensorFlow's parameter server tutorial: columns `features` "
                        "(3 different words of 7) and `label` (`yes` if `avenger` is one of "
                        "them, else `no`). `reviews` has `words` (6 to 24 words of 13, where "
                        "`not` negates the word after it, and \"\" behind them) and `label` "
                        "(`positive` or `negative`).",
                 .arguments = {String("name", "The generator.").OneOf({"recommender", "reviews"}),
                               Int("records", "Records per epoch.").Between(1, kMaxRecords),
                               Int("seed", "Seeds the records.").Default(0)}},
      .read_table = GenerateTable};
}

}  // namespace cohort
