#ifndef COHORT_COMMON_DATA_CLASS_FOLDER_H_
#define COHORT_COMMON_DATA_CLASS_FOLDER_H_

#include <absl/functional/function_ref.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/data/data_options.h"

namespace cohort {

class Config;
struct Argument;

// A folder with a sub-directory of files for each class, as image_dataset_from_directory and
// text_dataset_from_directory of Keras read it.

struct ClassFile {
  std::string path;  // below the folder
  int64_t label = 0;
  uint64_t bytes = 0;
};

struct ClassFolder {
  std::string root;
  std::vector<ClassFile> files;
};

// The arguments of a source that reads such a folder, with `more` of its own.
std::vector<Argument> ClassFolderArguments(std::vector<Argument> more);
absl::Status CheckClassFolder(const Config& config);

// Tells by its name whether a file is a record. An error ends the walk.
using TakesFile = absl::FunctionRef<absl::StatusOr<bool>(const std::string& name)>;

// Returns the files that `takes` accepts: class by class, within a class directory by directory,
// sorted; of a split, those of the subset. `kind` is for the error: "images (.jpg, .png)". Errors:
// NotFound for a missing folder; InvalidArgument if there are no files or no classes.
absl::StatusOr<ClassFolder> ReadClassFolder(const Config& config, const DataOptions& options,
                                            TakesFile takes, std::string_view kind);

// Identifies the names, labels and sizes of files.
std::string FingerprintOf(const std::vector<ClassFile>& files);

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_CLASS_FOLDER_H_
