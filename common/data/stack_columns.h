#ifndef COHORT_COMMON_DATA_STACK_COLUMNS_H_
#define COHORT_COMMON_DATA_STACK_COLUMNS_H_

#include <absl/status/statusor.h>

#include <span>

#include "common/data/table.h"
#include "common/data/transform_class.h"

namespace cohort {

// Stacks several columns of equal dims along a new last axis: words if all are words, else numbers.
// Errors: InvalidArgument (other dims, a word that is not a number).
absl::StatusOr<Column> StackColumns(std::span<const Column> inputs, uint64_t records);
// The same for the columns of records that are not in memory.
absl::StatusOr<RecordTransform> StackRecords(std::span<const FeatureType> inputs);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_STACK_COLUMNS_H_
