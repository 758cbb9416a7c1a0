#ifndef COHORT_COMMON_DATA_FILES_FILE_LIST_H_
#define COHORT_COMMON_DATA_FILES_FILE_LIST_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/data/data_options.h"

namespace cohort {

struct Argument;

// The argument `files` of a source.
Argument FileListArgument();

// Returns the files of a list as one list of paths, as a spec would name them: in the order of the
// list, and those that a pattern (`*`, `?`, `[a-z]`) matches in the order of their bytes. A file
// that exists under the very name of a pattern is this file. An address (https://...) is no
// pattern. `url` is for errors. Errors: NotFound that names a pattern without a file;
// InvalidArgument for no file, and for one that the list names twice.
absl::StatusOr<std::vector<std::string>> FindFiles(const std::vector<std::string>& patterns,
                                                   const std::string& url,
                                                   const DataOptions& options);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_FILES_FILE_LIST_H_
