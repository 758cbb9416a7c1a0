// Hashing (keras/src/layers/preprocessing/hashing.py).
#include "common/base/status.h"
#include "common/data/lookup.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

// Hashes words to bins.
class Bins {
 public:
  static absl::StatusOr<Bins> Create(const Config& config) {
    Bins bins;
    bins.bins_ = config.Int("num_bins");
    COHORT_ASSIGN_OR_RETURN(bins.key_, KeyOfSalt(config));
    if (!config.IsNone("mask_value") && bins.bins_ > 1) bins.mask_ = config.String("mask_value");
    return bins;
  }
  int64_t Of(std::string_view word) const {
    if (!mask_.has_value()) return HashBucket(word, bins_, key_);
    return word == *mask_ ? 0 : 1 + HashBucket(word, bins_ - 1, key_);
  }

 private:
  int64_t bins_ = 1;
  std::optional<std::string> mask_;  // it has bin 0
  HashKey key_;
};

CategoryOutput HashedOutput(const Config& config) {
  return {.mode = config.String("output_mode"), .depth = config.Int("num_bins")};
}

absl::StatusOr<std::vector<double>> HashWords(const Config& config,
                                              std::span<const std::string> words) {
  COHORT_ASSIGN_OR_RETURN(const Bins bins, Bins::Create(config));
  std::vector<double> numbers;
  for (const std::string& word : words) numbers.push_back(static_cast<double>(bins.Of(word)));
  return numbers;
}

absl::StatusOr<RecordTransform> OpenHashing(const Config& config,
                                            std::span<const FeatureType> inputs) {
  COHORT_ASSIGN_OR_RETURN(const Bins bins, Bins::Create(config));
  return CategoryTransform(
      HashedOutput(config), inputs[0], DType::kInt64,
      [bins](const CategoryInput& input) { return bins.Of(fmt::format("{}", input.integer)); });
}

}  // namespace

TransformClass HashingTransform() {
  return {
      .schema = {.name = "Hashing",
                 .doc = "Words or integers to bins by a hash, as Keras' Hashing; int64, or float32 "
                        "vectors.",
                 .arguments = {Int("num_bins", "The number of bins.").AtLeast(1),
                               String("mask_value",
                                      "A word, or the text of an integer, that has "
                                      "bin 0 for itself.")
                                   .Optional(),
                               SaltArgument(),
                               OutputModeArgument("int", {"int", "one_hot", "multi_hot", "count"}),
                               SparseArgument()}},
      .open = OpenHashing,
      .map_words = HashWords,
      .word_dtype = DType::kInt64,
      .integers_are_words = true,
      .encode = [](const Config& config, const FeatureType& numbers) {
        return EncodeCategories(HashedOutput(config), numbers);
      }};
}

}  // namespace cohort
