#ifndef COHORT_COMMON_DATA_ROW_FILTER_H_
#define COHORT_COMMON_DATA_ROW_FILTER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/data/expression.h"
#include "common/data/record_source.h"
#include "common/data/table.h"

namespace cohort {

namespace v1 {
class DatasetSpec;
}

// The `filter` of a dataset: an expression that is not 0 for the records that pass. It names
// columns of the source, or the outputs of transforms.
class RowFilter {
 public:
  // Errors: those of Expression::Parse, after "filter".
  static absl::StatusOr<RowFilter> Create(const v1::DatasetSpec& spec);

  // The columns of the source that it may read.
  ColumnUse use() const;

  // Returns the records of a table that pass, in their order. `table` has columns of the source
  // alone. Errors: InvalidArgument (an unknown column, a transform that has yet to learn, no record
  // passes) and those of the source.
  absl::StatusOr<TableVector<uint64_t>> Passing(const v1::DatasetSpec& spec, Table table) const;

 private:
  RowFilter(std::string text, Expression expression)
      : text_(std::move(text)), expression_(std::move(expression)) {}
  absl::StatusOr<std::vector<Column>> InputsOf(const v1::DatasetSpec& spec, Table* table) const;

  std::string text_;
  Expression expression_;
};

// Identifies a choice of records.
std::string FingerprintOf(const TableVector<uint64_t>& records);

using ChosenRecords = std::shared_ptr<const TableVector<uint64_t>>;
// Leaves these records in a table in memory whose graph is not made yet.
void KeepRecords(const ChosenRecords& records, Table* table);
// The same for a source that reads records by index.
std::shared_ptr<const RecordSource> KeepRecords(ChosenRecords records,
                                                std::shared_ptr<const RecordSource> source);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_ROW_FILTER_H_
