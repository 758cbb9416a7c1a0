// CategoryEncoding (keras/src/layers/preprocessing/category_encoding.py).
#include "common/base/status.h"
#include "common/data/category.h"
#include "common/data/transform_class.h"

namespace cohort {
namespace {

absl::StatusOr<RecordTransform> OpenCategoryEncoding(const Config& config,
                                                     std::span<const FeatureType> inputs) {
  const int64_t tokens = config.Int("num_tokens");
  return CategoryTransform(
      {.mode = config.String("output_mode"), .depth = tokens}, inputs[0], DType::kInt64,
      [tokens](const CategoryInput& input) -> absl::StatusOr<int64_t> {
        if (input.integer >= 0 && input.integer < tokens) return input.integer;
        return InvalidArgument("{} is not one of the numbers 0 to {}", input.integer, tokens - 1);
      });
}

}  // namespace

TransformClass CategoryEncodingTransform() {
  return {
      .schema = {.name = "CategoryEncoding",
                 .doc = "Numbers of categories to vectors, as Keras' CategoryEncoding; float32.",
                 .arguments = {Int("num_tokens", "The number of categories.").AtLeast(1),
                               OutputModeArgument("multi_hot", {"one_hot", "multi_hot", "count"}),
                               SparseArgument()}},
      .open = OpenCategoryEncoding};
}

}  // namespace cohort
