#ifndef COHORT_COMMON_DATA_FILES_FILE_LIST_H_
#define COHORT_COMMON_DATA_FILES_FILE_LIST_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "common/data/data_options.h"
#include "common/data/input_file.h"
#include "common/schema/class_schema.h"

namespace cohort {

// The arguments of a source that reads files as one data set: `path` or `files`, then `more`, then
// `url` and `sha256`, which kNoRecordArguments names.
std::vector<Argument> FileListArguments(std::vector<Argument> more);
inline constexpr const char* kNoRecordArguments[] = {"url", "sha256"};

// Returns the paths and patterns of these arguments. Errors: InvalidArgument unless one of `path`
// and `files` is given, and for `sha256` of several.
absl::StatusOr<std::vector<std::string>> PatternsOf(const Config& config);
// Returns the files of these arguments (FindFiles). Errors: those of PatternsOf and FindFiles;
// InvalidArgument for `sha256` of several files.
absl::StatusOr<std::vector<InputFile>> FindInputFiles(const Config& config,
                                                      const DataOptions& options);

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
