#ifndef COHORT_COMMON_DATA_RECORDS_RECORD_FIELD_H_
#define COHORT_COMMON_DATA_RECORDS_RECORD_FIELD_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/feature_type.h"

namespace cohort {

namespace v1 {
class ClassConfig;
}  // namespace v1

struct Argument;
struct ClassSchema;

// A column of numbers or words that each record of a file has as a list, and what stands for values
// that a record lacks.
struct RecordField {
  FeatureType type;  // words have the dtype kInvalid
  // For a record without the field; none: it is an error, or an empty list if there is a padding.
  std::optional<double> missing = std::nullopt;
  std::optional<std::string> missing_word = std::nullopt;
  // At the end of a list that is shorter than the shape; none: such a list is an error.
  std::optional<double> padding = std::nullopt;
  std::optional<std::string> word_padding = std::nullopt;
  bool truncate = false;  // a list that is longer is cut; else it is an error

  bool is_words() const { return type.dtype == DType::kInvalid; }
  size_t elements() const { return static_cast<size_t>(NumElements(type.dims)); }
  bool may_be_missing() const { return missing || missing_word || padding || word_padding; }

  // Returns how many of `count` values of a record are used. Errors: DataLoss for a count that does
  // not fit the shape.
  absl::StatusOr<size_t> UsedOf(size_t count) const;
  // Writes the numbers of a record to `out`, or to none if it is empty. `count` numbers of the
  // dtype `stored`. Errors: those of UsedOf.
  absl::Status WriteNumbers(DType stored, const void* numbers, size_t count,
                            std::span<std::byte> out) const;
  // Writes what stands for a record without the field. Errors: DataLoss if nothing does.
  absl::Status WriteMissing(std::span<std::byte> out) const;
};

// Checks a number that `argument` gives in place of values that are not there. Errors:
// InvalidArgument if it is no value of the dtype, such as a fraction of int32, or -1 of uint8.
absl::Status CheckFill(const FeatureType& type, std::string_view argument, double value);

// The classes `tensor` and `words` of a field: their schemas, with `more` arguments of a format.
ClassSchema TensorFieldSchema(std::vector<Argument> more);
ClassSchema WordsFieldSchema(std::vector<Argument> more);
// Reads a config of one of these. Errors: InvalidArgument that begins with the name.
absl::StatusOr<RecordField> MakeRecordField(const std::string& name, const v1::ClassConfig& config);

// The classes `numbers` and `words` of a column that files have as lists of different lengths:
// schemas with `length`, `pad_with`, `truncate` and `more` arguments of a format.
std::vector<ClassSchema> ListSchemas(std::vector<Argument> more);
// Reads a config of one of these. The dtype of numbers is that of the file, and not set. Errors:
// InvalidArgument that begins with the name.
absl::StatusOr<RecordField> MakeListField(const std::string& name, const v1::ClassConfig& config);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_RECORD_FIELD_H_
