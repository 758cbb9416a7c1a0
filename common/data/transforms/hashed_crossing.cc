// HashedCrossing (keras/src/layers/preprocessing/hashed_crossing.py).
#include <algorithm>
#include <functional>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/category.h"
#include "common/data/convert.h"
#include "common/data/csv_reader.h"
#include "common/data/hashing.h"
#include "common/data/table.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

constexpr uint64_t kFirstHash = 0xDECAFCAFFE;  // the default key of tf.sparse.cross_hashed

CategoryOutput CrossedOutput(const Config& config) {
  return {.mode = config.String("output_mode"), .depth = config.Int("num_bins")};
}

absl::Status CheckCrossed(size_t columns, const std::function<const Dims&(size_t)>& dims) {
  if (columns < 2) return InvalidArgument("HashedCrossing needs two columns or more");
  for (size_t i = 0; i < columns; ++i) {
    if (NumElements(dims(i)) == 1 && dims(i) == dims(0)) continue;
    return InvalidArgument("HashedCrossing needs columns with one word or integer in a record");
  }
  return absl::OkStatus();
}

constexpr char kIntegerColumns[] = "integer_columns";

// The words of a column that its records have.
std::vector<bool> UsedWords(const Column& column) {
  std::vector<bool> used(column.words->size());
  for (const uint32_t code : *column.codes) used[code] = true;
  return used;
}

bool HoldsIntegers(const Column& column) {
  if (!column.is_text()) return !IsFloating(column.dtype);
  const std::vector<bool> used = UsedWords(column);
  int64_t number = 0;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] && !ParseInteger((*column.words)[i], &number)) return false;
  }
  return true;
}

// Other rows have other words, so the training rows decide what a column holds.
absl::Status AdaptToColumns(std::span<const Column> columns, v1::ClassConfig* config) {
  v1::ConfigValue names;
  names.mutable_list();
  for (const Column& column : columns) {
    if (HoldsIntegers(column)) *names.mutable_list()->add_values() = ConfigOf(column.name);
  }
  (*config->mutable_config())[kIntegerColumns] = std::move(names);
  return absl::OkStatus();
}

bool AreIntegers(const Config& config, const std::string& column) {
  const std::vector<std::string> names = config.Strings(kIntegerColumns);
  return std::ranges::find(names, column) != names.end();
}

// The hash of each word. That of an integer is its value.
absl::StatusOr<std::vector<uint64_t>> HashesOf(const Column& column, bool integers) {
  const std::vector<bool> used = UsedWords(column);
  std::vector<uint64_t> hashes(used.size());
  for (size_t i = 0; i < used.size(); ++i) {
    const std::string& word = (*column.words)[i];
    int64_t number = 0;
    if (!integers) {
      hashes[i] = Fingerprint(word);
    } else if (ParseInteger(word, &number)) {
      hashes[i] = static_cast<uint64_t>(number);
    } else if (used[i]) {
      return InvalidArgument(
          "column \"{}\" counts as integers, as it does in the training rows, and \"{}\" is none; "
          "leave the column out of `{}`, so that all its words are hashed as text",
          PrintableLine(column.name), PrintableLine(word.substr(0, 60)), kIntegerColumns);
    }
  }
  return hashes;
}

absl::StatusOr<std::vector<double>> CrossColumns(const Config& config,
                                                 std::span<const Column> columns) {
  COHORT_RETURN_IF_ERROR(
      CheckCrossed(columns.size(), [&](size_t i) -> const Dims& { return columns[i].dims; }));
  std::vector<uint64_t> crossed(columns[0].codes->size(), kFirstHash);
  for (const Column& column : columns) {
    COHORT_ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes,
                            HashesOf(column, AreIntegers(config, column.name)));
    for (size_t i = 0; i < crossed.size(); ++i) {
      crossed[i] = JoinFingerprints(crossed[i], hashes[(*column.codes)[i]]);
    }
  }
  const auto bins = static_cast<uint64_t>(config.Int("num_bins"));
  std::vector<double> numbers;
  for (const uint64_t hash : crossed) numbers.push_back(static_cast<double>(hash % bins));
  return numbers;
}

// Integers of columns that are read record by record.
absl::StatusOr<RecordTransform> OpenCrossing(const Config& config,
                                             std::span<const FeatureType> inputs) {
  COHORT_RETURN_IF_ERROR(
      CheckCrossed(inputs.size(), [&](size_t i) -> const Dims& { return inputs[i].dims; }));
  std::vector<DType> dtypes;
  std::vector<bool> are_integers;
  for (const FeatureType& input : inputs) {
    if (IsFloating(input.dtype)) {
      return InvalidArgument("HashedCrossing crosses words and integers, and \"{}\" is {}",
                             input.name, DTypeName(input.dtype));
    }
    dtypes.push_back(input.dtype);
    are_integers.push_back(AreIntegers(config, input.name));
  }
  const FeatureType one{inputs[0].name, DType::kInt64, inputs[0].dims};
  RecordTransform encode = CategoryTransform(CrossedOutput(config), one, DType::kInt64,
                                             [](const CategoryInput& in) { return in.integer; });
  const auto bins = static_cast<uint64_t>(config.Int("num_bins"));
  auto of_number = std::move(encode.apply);
  encode.apply = [dtypes, are_integers, bins, of_number](
                     const RecordContext& context,
                     std::span<const std::span<const std::byte>> values,
                     std::span<std::byte> output) {
    uint64_t crossed = kFirstHash;
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t number = 0;
      ConvertNumbers(dtypes[i], values[i].data(), DType::kInt64, &number, 1);
      crossed = JoinFingerprints(crossed, are_integers[i] ? static_cast<uint64_t>(number)
                                                          : Fingerprint(fmt::format("{}", number)));
    }
    const auto number = static_cast<int64_t>(crossed % bins);
    const std::span<const std::byte> bytes = std::as_bytes(std::span(&number, 1));
    return of_number(context, {&bytes, 1}, output);
  };
  return encode;
}

}  // namespace

TransformClass HashedCrossingTransform() {
  return {
      .schema = {.name = "HashedCrossing",
                 .doc = "Bins of the pairs (or more) of several columns by a hash, as Keras' "
                        "HashedCrossing; int64, or float32 vectors.",
                 .arguments = {Int("num_bins", "The number of bins.").AtLeast(1),
                               Strings(kIntegerColumns,
                                       "The columns that count as integers, whose hash is their "
                                       "value; none: those with nothing but integers in the "
                                       "training rows.")
                                   .Optional(),
                               OutputModeArgument("int", {"int", "one_hot"}), SparseArgument()}},
      .takes_columns = true,
      .open = OpenCrossing,
      .word_dtype = DType::kInt64,
      .map_columns = CrossColumns,
      .integers_are_words = true,
      .encode =
          [](const Config& config, const FeatureType& numbers) {
            return EncodeCategories(CrossedOutput(config), numbers);
          },
      .must_adapt = [](const Config& config) { return config.IsNone(kIntegerColumns); },
      .adapt_columns = AdaptToColumns};
}

}  // namespace cohort
