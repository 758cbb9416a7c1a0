#ifndef COHORT_COMMON_DATA_TRANSFORM_H_
#define COHORT_COMMON_DATA_TRANSFORM_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/data/sources.h"
#include "common/data/table.h"

namespace cohort::v1 {
class ColumnTransform;
class DatasetSpec;
}  // namespace cohort::v1

namespace cohort {

// Returns the columns of the source that the transforms (and the label) use as words, and as
// numbers.
CsvUse UseOfColumns(const v1::DatasetSpec& spec);

// Applies one transform. It takes its column (or stacks its columns along a new last axis), and
// converts it:
//
//   lookup      words -> ids, int64 (0: not in the vocabulary)
//   equals      words or numbers -> 1 if equal, else 0; float32
//   otherwise   numbers, scaled by scale and offset; float32 if either is given
//
// Then it casts the result to `dtype` and stores it as the column `output` of the table, replacing
// a column of that name. `vocabulary` receives the words of a lookup. Errors: InvalidArgument that
// names the transform and the problem.
absl::Status ApplyTransform(const v1::ColumnTransform& transform, Table* table,
                            std::vector<std::string>* vocabulary);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TRANSFORM_H_
