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
#include "common/schema/class_registry.h"

namespace cohort {

// The kinds of features of a tf.Example: `tensor` (numbers) and `image` (an encoded image).
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

  // Decodes the columns of a record for which `values` has memory. Errors: DataLoss.
  absl::Status Decode(std::string_view record, std::span<const std::span<std::byte>> values) const;
  // Finds out whether all columns of a record can be decoded. Errors: DataLoss.
  absl::Status Check(std::string_view record) const;

 private:
  std::vector<FeatureType> columns_;
  std::vector<std::optional<ImageColumn>> images_;  // by column; none: numbers
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_RECORDS_EXAMPLE_COLUMNS_H_
