#ifndef COHORT_DEPLOY_LAUNCHER_DATA_SAMPLE_H_
#define COHORT_DEPLOY_LAUNCHER_DATA_SAMPLE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/data/dataset.h"

namespace cohort {

// The numbers of a column in a sample of its records.
struct ColumnSample {
  FeatureType type;
  uint64_t numbers = 0;  // finite ones
  uint64_t missing = 0;  // NaN
  uint64_t infinite = 0;
  double least = 0;  // the least finite one, valid if there are any
  double largest = 0;
  bool whole = true;           // all are integers
  uint64_t distinct = 0;       // finite ones
  bool more_distinct = false;  // at least `distinct`: counting has ended
  std::vector<double> first;   // the first numbers of the first record
  uint64_t first_length = 0;   // how many the first record has
  bool ragged = false;         // lists of different lengths, without their padding

  bool empty() const { return numbers == 0; }
};

// A sample of a dataset.
struct DataSample {
  uint64_t records = 0;  // in the sample
  uint64_t all = 0;      // in the dataset
  std::vector<ColumnSample> columns;
  std::vector<std::pair<std::string, std::string>> unused;  // columns that are no numbers, and why
  uint64_t batch = 0;                                       // records of the first batch

  // Null if there is no column of this name.
  const ColumnSample* Find(const std::string& column) const;
  // The table of columns (type, range, missing, distinct), and the first record of the first batch.
  std::string Text() const;
};

// Reads records that are spread evenly over the dataset: at most 2000, fewer if records are large
// or must be computed. Errors: those of Dataset::Gather.
absl::StatusOr<DataSample> SampleData(const Dataset& dataset, uint64_t batch_size);

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_DATA_SAMPLE_H_
