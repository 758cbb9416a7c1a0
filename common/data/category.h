#ifndef COHORT_COMMON_DATA_CATEGORY_H_
#define COHORT_COMMON_DATA_CATEGORY_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/transform_class.h"

namespace cohort {

// How a transform of Keras gives the numbers of categories: `output_mode`
// (keras/src/utils/numerical_utils.py).
//
//   int        the numbers, in the shape of the input
//   one_hot    a vector for each number; a last axis of 1 goes
//   multi_hot  1 for each number in the last axis of a record, which becomes `depth`
//   count      how often it is there
//   tf_idf     count times a weight of the number
//
// A number below 0 is in no vector.
struct CategoryOutput {
  std::string mode = "int";
  int64_t depth = 0;           // the length of a vector
  std::vector<float> weights;  // tf_idf: one for each number

  bool is_int() const { return mode == "int"; }
};

// The argument `output_mode` with one of these values.
Argument OutputModeArgument(std::string_view default_mode, std::vector<std::string> modes);
// `sparse`, which changes nothing but the memory of a tensor.
Argument SparseArgument();

// A number of a record. `integer` is `value` without its fraction.
struct CategoryInput {
  int64_t integer = 0;
  double value = 0;
};
// The number of a category. Errors: InvalidArgument.
using CategoryOf = std::function<absl::StatusOr<int64_t>(const CategoryInput&)>;

// Makes the transform of a column of numbers. `int_dtype` is that of the mode int, else the result
// is float32. Errors: InvalidArgument for a number above the depth, when a record is read.
RecordTransform CategoryTransform(CategoryOutput output, const FeatureType& input, DType int_dtype,
                                  CategoryOf category);

// Writes the vector of some numbers to `to`, which has room for `depth` float32 numbers. Errors:
// InvalidArgument for a number from the depth on.
absl::Status WriteVector(const CategoryOutput& output, std::span<const int64_t> numbers,
                         std::span<std::byte> to);

// TransformClass::encode of words that have become numbers of categories.
absl::StatusOr<std::optional<RecordTransform>> EncodeCategories(CategoryOutput output,
                                                                const FeatureType& numbers);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_CATEGORY_H_
