// The build without Arrow.
#include "common/base/status.h"
#include "deploy/predict/prediction_format.h"

namespace cohort {

absl::Status CheckParquetPredictions() {
  return Unimplemented(
      "this build of Cohort cannot write Parquet: build it with -DCOHORT_ARROW_ROOT=DIRECTORY, "
      "that of the Python package pyarrow, or let pandas convert a CSV file: "
      "pandas.read_csv(FILE).to_parquet(...)");
}

// CheckParquetPredictions comes first.
std::unique_ptr<PredictionFormat> ParquetPredictions(std::vector<PredictionColumn>, uint64_t) {
  return nullptr;
}

}  // namespace cohort
