#ifndef COHORT_COMMON_DATA_TRANSFORM_H_
#define COHORT_COMMON_DATA_TRANSFORM_H_

#include <absl/status/statusor.h>

#include <string>

#include "common/data/data_options.h"
#include "common/data/table.h"

namespace cohort::v1 {
class ClassConfig;
class ColumnTransform;
class DatasetSpec;
}  // namespace cohort::v1

namespace cohort {

// True if the class has a vocabulary that is no list, but a file with one word in each line.
bool HasVocabularyFile(const v1::ClassConfig& config);
// Reads it into the class, before it is completed. Errors: those of ReadInputFile; InvalidArgument
// that names the line.
absl::Status ReadVocabulary(const DataOptions& options, v1::ClassConfig* config);

// Returns the column that a transform makes.
std::string OutputOf(const v1::ColumnTransform& transform);

// Returns the class of a transform that names none: Cast, or Stack for several columns.
std::string DefaultClass(const v1::ColumnTransform& transform);

// Gives a transform the columns that its arguments name. Errors: InvalidArgument for other ones.
absl::Status FillColumns(v1::ColumnTransform* transform);

// Completes the arguments of the source and of the transforms, and checks the transforms. Errors:
// InvalidArgument or Unimplemented, with the source or the output of the transform.
absl::Status CompleteDataset(v1::DatasetSpec* spec);

// Returns the columns of the source that the transforms (and the label) use as words, and as
// numbers. The classes are complete.
ColumnUse UseOfColumns(const v1::DatasetSpec& spec);

// Applies one complete transform: takes its column or columns, transforms them, casts the result to
// `dtype` and stores it as the column `output` of the table, replacing a column of that name. The
// class of `transform` receives arguments that it has learned from the column. Errors:
// InvalidArgument that names the transform and the problem.
absl::Status ApplyTransform(v1::ColumnTransform* transform, Table* table);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_TRANSFORM_H_
