// The build without Arrow.
#include "common/base/status.h"
#include "common/data/parquet/parquet_files.h"

namespace cohort {

absl::StatusOr<std::shared_ptr<const RecordSource>> OpenParquetFiles(const std::vector<InputFile>&,
                                                                     const ParquetOptions&,
                                                                     const DataOptions&) {
  return Unimplemented(
      "this build of Cohort cannot read Parquet: build it with -DCOHORT_ARROW_ROOT=DIRECTORY, that "
      "of the Python package pyarrow, or convert the file to CSV or JSON lines");
}

}  // namespace cohort
