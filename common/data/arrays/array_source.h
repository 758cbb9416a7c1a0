#ifndef COHORT_COMMON_DATA_ARRAYS_ARRAY_SOURCE_H_
#define COHORT_COMMON_DATA_ARRAYS_ARRAY_SOURCE_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "common/data/arrays/npy_array.h"
#include "common/data/input_file.h"
#include "common/data/record_source.h"

namespace cohort {

// Arrays side by side, a column each: record i is row i of all of them. `names` are the columns;
// `fingerprint` identifies the contents of the files. Errors: InvalidArgument for arrays of
// different lengths, or no arrays.
absl::StatusOr<std::shared_ptr<const RecordSource>> MakeArraySource(std::vector<NpyArray> arrays,
                                                                    std::vector<std::string> names,
                                                                    std::string fingerprint);

// Opens a .npy file. Adds its size and a checksum to `fingerprint`.
absl::StatusOr<NpyArray> OpenNpyFile(const InputFile& file, const DataOptions& options,
                                     std::string* fingerprint);

// The argument `columns`, names for `files` arrays, or else the given names. Errors:
// InvalidArgument for another number of names.
absl::StatusOr<std::vector<std::string>> NamesOfColumns(const std::vector<std::string>& columns,
                                                        std::vector<std::string> names);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_ARRAYS_ARRAY_SOURCE_H_
