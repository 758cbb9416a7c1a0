// HashedCrossing (keras/src/layers/preprocessing/hashed_crossing.py).
#include <cstring>
#include <functional>

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

// The hash of each word. A column whose words are all integers counts as integers, whose hash is
// their value.
std::vector<uint64_t> HashesOf(std::span<const std::string> words) {
  std::vector<uint64_t> hashes;
  int64_t number = 0;
  for (const std::string& word : words) {
    if (!ParseInteger(word, &number)) break;
    hashes.push_back(static_cast<uint64_t>(number));
  }
  if (hashes.size() == words.size()) return hashes;
  hashes.clear();
  for (const std::string& word : words) hashes.push_back(Fingerprint(word));
  return hashes;
}

absl::StatusOr<std::vector<double>> CrossColumns(const Config& config,
                                                 std::span<const Column> columns) {
  COHORT_RETURN_IF_ERROR(
      CheckCrossed(columns.size(), [&](size_t i) -> const Dims& { return columns[i].dims; }));
  std::vector<uint64_t> crossed(columns[0].codes->size(), kFirstHash);
  for (const Column& column : columns) {
    const std::vector<uint64_t> hashes = HashesOf(*column.words);
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
  for (const FeatureType& input : inputs) {
    if (IsFloating(input.dtype)) {
      return InvalidArgument("HashedCrossing crosses words and integers, and \"{}\" is {}",
                             input.name, DTypeName(input.dtype));
    }
    dtypes.push_back(input.dtype);
  }
  const FeatureType one{inputs[0].name, DType::kInt64, inputs[0].dims};
  RecordTransform encode = CategoryTransform(CrossedOutput(config), one, DType::kInt64,
                                             [](const CategoryInput& in) { return in.integer; });
  const auto bins = static_cast<uint64_t>(config.Int("num_bins"));
  auto of_number = std::move(encode.apply);
  encode.apply = [dtypes, bins, of_number](const RecordContext& context,
                                           std::span<const std::span<const std::byte>> values,
                                           std::span<std::byte> output) {
    uint64_t crossed = kFirstHash;
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t number = 0;
      ConvertNumbers(dtypes[i], values[i].data(), DType::kInt64, &number, 1);
      crossed = JoinFingerprints(crossed, static_cast<uint64_t>(number));
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
                        "HashedCrossing; int64, or float32 vectors. A column whose words are all "
                        "integers counts as integers.",
                 .arguments = {Int("num_bins", "The number of bins.").AtLeast(1),
                               OutputModeArgument("int", {"int", "one_hot"}), SparseArgument()}},
      .takes_columns = true,
      .open = OpenCrossing,
      .word_dtype = DType::kInt64,
      .map_columns = CrossColumns,
      .integers_are_words = true,
      .encode = [](const Config& config, const FeatureType& numbers) {
        return EncodeCategories(CrossedOutput(config), numbers);
      }};
}

}  // namespace cohort
