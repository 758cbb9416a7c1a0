#ifndef COHORT_COMMON_DATA_RECORDS_EXAMPLE_COLUMNS_H_
#define COHORT_COMMON_DATA_RECORDS_EXAMPLE_COLUMNS_H_

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/feature_type.h"
#include "common/data/images/image_column.h"
#include "common/data/record_source.h"
#include "common/data/records/record_field.h"
#include "common/schema/class_registry.h"

namespace cohort {

// The kinds of features of a tf.Example: `tensor` (numbers), `words` and `image` (an encoded one).
const SchemaSet& FeatureKinds();

// The columns of records that are tf.Examples (proto/tf_example.proto), in the order of their
// names.
class ExampleColumns {
 public:
  // `features`: complete configs of FeatureKinds() by name. Errors: InvalidArgument that begins
  // with the name.
  static absl::StatusOr<ExampleColumns> Create(
      const std::map<std::string, v1::ClassConfig>& features);

  const std::vector<FeatureType>& columns() const { return columns_; }
  const std::vector<FeatureType>& word_columns() const { return word_columns_; }

  // Decodes the columns of a record for which `values` has memory. Errors: DataLoss.
  absl::Status Decode(std::string_view record, std::span<const std::span<std::byte>> values) const;
  // As RecordSource::ReadWords. Errors: DataLoss.
  absl::Status DecodeWordsOf(std::string_view record, std::span<const size_t> columns,
                             RecordSource::AddWord add) const;
  // Finds out whether all columns of a record can be decoded. Errors: DataLoss.
  absl::Status Check(std::string_view record) const;

 private:
  std::vector<FeatureType> columns_;
  std::vector<RecordField> fields_;                 // by column
  std::vector<std::optional<ImageColumn>> images_;  // by column; none: numbers
  std::vector<FeatureType> word_columns_;
  std::vector<RecordField> word_fields_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_EXAMPLE_COLUMNS_H_
