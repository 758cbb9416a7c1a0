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

// Which columns of the source the transforms (and the label) use as words and which as numbers.
CsvUse UseOfColumns(const v1::DatasetSpec& spec);

// Applies one transform: takes its column (or stacks its columns along a new last axis), then
//   lookup    words -> ids, int64 (0: not in the vocabulary)
//   equals    words or numbers -> 1 where equal, else 0, float32
//   otherwise numbers, scaled by scale and offset, float32 where either is given
// then the cast to `dtype`; and puts the result under `output` into the table, in the place of a
// column of that name. `vocabulary` receives the words of a lookup. Errors: InvalidArgument naming
// the transform and what is wrong with it.
absl::Status ApplyTransform(const v1::ColumnTransform& transform, Table* table,
                            std::vector<std::string>* vocabulary);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TRANSFORM_H_
