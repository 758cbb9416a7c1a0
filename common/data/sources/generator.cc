#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
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
Column WordColumn(std::string name, Dims dims, TableVector<uint32_t> codes,
                  const std::array<const char*, N>& words) {
  Column column;
  column.name = std::move(name);
  column.dims = std::move(dims);
  column.codes = std::make_shared<const TableVector<uint32_t>>(std::move(codes));
  column.words = std::make_shared<const std::vector<std::string>>(words.begin(), words.end());
  return column;
}

Table Reviews(uint64_t seed, const RowRange& rows) {
  TableVector<uint32_t> words, labels;
  for (uint64_t i = 0; i < rows.take; ++i) {
    const Review review = DrawReview(seed, rows.skip + i);
    for (const uint32_t word : review.words) words.push_back(word);
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

// Pictures of discs and squares on a background, with noise, and the class of each pixel: 0, 1 for
// a disc, 2 for a square.
constexpr int64_t kPictureSide = 32;
constexpr size_t kPicturePixels = kPictureSide * kPictureSide;
constexpr uint64_t kMostPictures = 1 << 18;  // 4 KB each
constexpr uint64_t kPictureShapes = 3;

using Color = std::array<uint8_t, 3>;

struct Shape {
  uint8_t kind = 0;  // the class of its pixels
  int64_t x = 0, y = 0, radius = 0;
  Color color = {};

  bool Has(int64_t column, int64_t row) const {
    const int64_t across = column - x, down = row - y;
    if (kind == 1) return across * across + down * down <= radius * radius;
    return std::abs(across) < radius && std::abs(down) < radius;
  }
};

// Numbers from 0 to 63, beginning with `least`.
Color ColorOf(uint32_t bits, uint32_t least) {
  return {static_cast<uint8_t>(least + bits % 64), static_cast<uint8_t>(least + (bits >> 8) % 64),
          static_cast<uint8_t>(least + (bits >> 16) % 64)};
}

Shape DrawShape(uint64_t seed, uint64_t index, uint64_t number) {
  const PhiloxBlock random = Philox(index, number, seed);
  const int64_t radius = 4 + random[0] % 4;
  const auto place = [radius](uint32_t bits) {
    return radius + static_cast<int64_t>(bits % static_cast<uint32_t>(kPictureSide - 2 * radius));
  };
  Shape shape = {.kind = static_cast<uint8_t>(1 + (random[0] >> 8) % 2),
                 .x = place(random[1]),
                 .y = place(random[2]),
                 .radius = radius,
                 .color = ColorOf(random[3], 128)};
  // Discs are rather red, and squares rather blue; the form decides the rest.
  shape.color[shape.kind == 1 ? 2 : 0] -= 40;
  return shape;
}

// `image` has 3 bytes for each pixel, and `mask` one.
void DrawPicture(uint64_t seed, uint64_t index, uint8_t* image, uint8_t* mask) {
  const Color background = ColorOf(Philox(index, /*counter_high=*/0, seed)[0], 0);
  for (size_t i = 0; i < kPicturePixels; ++i) {
    std::copy(background.begin(), background.end(), image + 3 * i);
  }
  for (uint64_t number = 1; number <= kPictureShapes; ++number) {
    const Shape shape = DrawShape(seed, index, number);
    for (int64_t row = 0; row < kPictureSide; ++row) {
      for (int64_t column = 0; column < kPictureSide; ++column) {
        if (!shape.Has(column, row)) continue;
        const auto at = static_cast<size_t>(row * kPictureSide + column);
        mask[at] = shape.kind;
        std::copy(shape.color.begin(), shape.color.end(), image + 3 * at);
      }
    }
  }
  for (size_t at = 0; at < 3 * kPicturePixels; at += 4 * sizeof(uint32_t)) {
    const PhiloxBlock noise = Philox(index, /*counter_high=*/16 + at, seed);
    for (size_t i = 0; i < 4 * sizeof(uint32_t); ++i) {
      image[at + i] += static_cast<uint8_t>((noise[i / 4] >> (8 * (i % 4))) % 32);
    }
  }
}

Column ByteColumn(std::string name, Dims dims, TableVector<uint8_t> values) {
  Column column;
  column.name = std::move(name);
  column.dims = std::move(dims);
  column.stored = column.dtype = DType::kUint8;
  column.values = std::make_shared<const TableVector<uint8_t>>(std::move(values));
  return column;
}

absl::StatusOr<Table> Pictures(uint64_t seed, const RowRange& rows) {
  if (rows.take > kMostPictures) {
    return InvalidArgument(
        "shapes keeps its records in memory, at most {}: lower `records` or set `take`",
        kMostPictures);
  }
  TableVector<uint8_t> images(rows.take * 3 * kPicturePixels), masks(rows.take * kPicturePixels);
  for (uint64_t i = 0; i < rows.take; ++i) {
    DrawPicture(seed, rows.skip + i, images.data() + i * 3 * kPicturePixels,
                masks.data() + i * kPicturePixels);
  }
  Table table;
  table.records = rows.take;
  table.columns.push_back(ByteColumn("image", {kPictureSide, kPictureSide, 3}, std::move(images)));
  table.columns.push_back(ByteColumn("mask", {kPictureSide, kPictureSide}, std::move(masks)));
  return table;
}

// A house and what it was sold for.
constexpr std::array<const char*, 4> kDistricts = {"harbor", "hills", "old_town", "suburb"};
constexpr std::array<float, 4> kDistrictFactors = {1.0F, 1.3F, 1.1F, 0.8F};

struct House {
  float living_area, lot_area, rooms, age, distance;
  uint32_t district;
  float price;
};

House DrawHouse(uint64_t seed, uint64_t index) {
  std::array<float, 8> uniform;
  for (uint64_t i = 0; i < 2; ++i) {
    const PhiloxBlock random = Philox(index, /*counter_high=*/1000 + i, seed);
    for (size_t k = 0; k < 4; ++k) {
      uniform[i * 4 + k] = static_cast<float>(random[k] >> 8) * 0x1.0p-24F;
    }
  }
  House house{};
  house.living_area = 40 + std::floor(160 * uniform[0]);
  house.lot_area = house.living_area * (1 + 4 * uniform[1]);
  house.rooms = 1 + std::floor(house.living_area * (0.7F + 0.6F * uniform[2]) / 30);
  house.age = std::floor(100 * uniform[3]);
  house.distance = 0.5F + 25 * uniform[4] * uniform[4];
  house.district = static_cast<uint32_t>(4 * uniform[5]);
  const float per_area = 4 * kDistrictFactors[house.district] / (1 + 0.05F * house.distance);
  const float worth = house.living_area * per_area * (1 - 0.004F * house.age) +
                      0.1F * house.lot_area + 8 * house.rooms;
  house.price = worth * (0.95F + 0.1F * uniform[6]);  // in thousands; nobody can explain 5 %
  return house;
}

Column NumberColumn(std::string name, TableVector<float> numbers) {
  Column column;
  column.name = std::move(name);
  column.stored = column.dtype = DType::kFloat32;
  column.values = std::make_shared<const TableVector<uint8_t>>(std::move(numbers).TakeBytes());
  return column;
}

Table Houses(uint64_t seed, const RowRange& rows) {
  const std::array<std::pair<const char*, float House::*>, 6> numbers = {
      {{"living_area", &House::living_area},
       {"lot_area", &House::lot_area},
       {"rooms", &House::rooms},
       {"age", &House::age},
       {"distance", &House::distance},
       {"price", &House::price}}};
  std::vector<House> houses;
  houses.reserve(rows.take);
  for (uint64_t i = 0; i < rows.take; ++i) houses.push_back(DrawHouse(seed, rows.skip + i));
  Table table;
  table.records = rows.take;
  for (const auto& [name, member] : numbers) {
    TableVector<float> column;
    for (const House& house : houses) column.push_back(house.*member);
    table.columns.push_back(NumberColumn(name, std::move(column)));
  }
  TableVector<uint32_t> districts;
  for (const House& house : houses) districts.push_back(house.district);
  table.columns.push_back(WordColumn("district", {}, std::move(districts), kDistricts));
  return table;
}

absl::StatusOr<Table> GenerateTable(const Config& config, const SourceContext& context,
                                    const TableRequest& request) {
  const auto seed = static_cast<uint64_t>(config.Int("seed"));
  COHORT_ASSIGN_OR_RETURN(const RowRange rows,
                          ClampRange(request.range, static_cast<uint64_t>(config.Int("records"))));
  if (config.String("name") == "reviews") return Reviews(seed, rows);
  if (config.String("name") == "shapes") return Pictures(seed, rows);
  if (config.String("name") == "houses") return Houses(seed, rows);
  TableVector<uint32_t> features;
  TableVector<uint32_t> labels;
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
                 .doc =
                     "Records that are computed from (seed, index). `recommender` is the "
                     "dataset of TensorFlow's parameter server tutorial: columns `features` "
                     "(3 different words of 7) and `label` (`yes` if `avenger` is one of "
                     "them, else `no`). `reviews` has `words` (6 to 24 words of 13, where "
                     "`not` negates the word after it, and \"\" behind them) and `label` "
                     "(`positive` or `negative`). `shapes` has `image` (32 x 32 pixels with "
                     "discs and squares, uint8) and `mask` (the class of each pixel: 0, 1 for a "
                     "disc, 2 for a square). `houses` has the numbers `living_area`, `lot_area`, "
                     "`rooms`, `age` and `distance`, the word `district`, and `price`.",
                 .arguments = {String("name", "The generator.")
                                   .OneOf({"recommender", "reviews", "shapes", "houses"}),
                               Int("records", "Records per epoch.").Between(1, kMaxRecords),
                               Int("seed", "Seeds the records.").Default(0)}},
      .read_table = GenerateTable};
}

}  // namespace cohort
