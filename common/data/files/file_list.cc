#include "common/data/files/file_list.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/files/remote_file.h"
#include "common/data/input_file.h"
#include "common/schema/class_registry.h"

namespace cohort {
namespace {

absl::StatusOr<std::vector<std::string>> FindMatches(const std::string& pattern,
                                                     const std::string& url,
                                                     const DataOptions& options) {
  const std::string path = options.PathOf(pattern);
  std::error_code ignored;
  if (IsRemote(pattern) || !IsPattern(pattern) || std::filesystem::exists(path, ignored)) {
    return std::vector{pattern};
  }
  const size_t folder = path.size() - pattern.size();
  glob_t found = {};
  const int result = ::glob(path.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> files;
  for (size_t i = 0; result == 0 && i < found.gl_pathc; ++i) {
    files.push_back(std::string(found.gl_pathv[i]).substr(folder));
  }
  ::globfree(&found);
  if (result == GLOB_NOSPACE) return ResourceExhausted("no memory for the files of {}", path);
  if (files.empty()) return MissingFile({pattern, url, ""}, path, options);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Argument FileListArgument() {
  return Strings("files",
                 "Files below `COHORT_DATA_DIR`, or absolute, or addresses; `*`, `?` and `[a-z]` "
                 "stand for more. They are one data set: in this order, and the matches of a "
                 "pattern sorted by name.");
}

absl::StatusOr<std::vector<std::string>> FindFiles(const std::vector<std::string>& patterns,
                                                   const std::string& url,
                                                   const DataOptions& options) {
  std::vector<std::string> files;
  std::set<std::string> seen;
  for (const std::string& pattern : patterns) {
    COHORT_ASSIGN_OR_RETURN(std::vector<std::string> found, FindMatches(pattern, url, options));
    for (std::string& file : found) {
      if (!seen.insert(file).second) {
        return InvalidArgument("`files` names {} twice, so an epoch would read its records twice",
                               PrintableLine(file));
      }
      files.push_back(std::move(file));
    }
  }
  if (files.empty()) return InvalidArgument("`files` names no file");
  return files;
}

}  // namespace cohort
