#include "common/data/files/file_list.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "common/data/files/remote_file.h"
#include "common/data/input_file.h"

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

std::vector<Argument> FileListArguments(std::vector<Argument> more) {
  std::vector<Argument> arguments = {
      String("path",
             "A file below `COHORT_DATA_DIR`, or absolute, or an address; may be packed with gzip "
             "or zstd, unless it is Parquet. `*`, `?` and `[a-z]` stand for more files.")
          .Optional(),
      Strings("files",
              "Instead of `path`: several of them. They are one data set, in this order, and the "
              "matches of a pattern sorted by name.")
          .Optional()};
  for (Argument& argument : more) arguments.push_back(std::move(argument));
  arguments.push_back(String("url", "Shown in the error if a file is missing.").Optional());
  arguments.push_back(
      String("sha256", "Hexadecimal, for one file; checked if given, which reads all of it.")
          .Optional());
  return arguments;
}

absl::StatusOr<std::vector<std::string>> PatternsOf(const Config& config) {
  const bool has_path = !config.IsNone("path");
  const std::vector<std::string> files = config.Strings("files");
  if (has_path == !config.IsNone("files") || (!has_path && files.empty())) {
    return InvalidArgument("needs its argument `path`, or `files`, which is a list");
  }
  if (has_path) return std::vector{config.String("path")};
  if (files.size() > 1 && !config.IsNone("sha256")) {
    return InvalidArgument("{}: sha256 is for one file", PublicPath(files[0]));
  }
  return files;
}

absl::StatusOr<std::vector<InputFile>> FindInputFiles(const Config& config,
                                                      const DataOptions& options) {
  const std::string& url = config.String("url");
  const std::string& sha256 = config.String("sha256");
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> patterns, PatternsOf(config));
  COHORT_ASSIGN_OR_RETURN(const std::vector<std::string> paths, FindFiles(patterns, url, options));
  if (paths.size() > 1 && !sha256.empty()) {
    return InvalidArgument("{}: sha256 is for one file, and {} match", PublicPath(patterns[0]),
                           paths.size());
  }
  std::vector<InputFile> files;
  for (const std::string& path : paths) files.push_back({path, url, sha256});
  return files;
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
                               PrintableLine(PublicPath(file)));
      }
      files.push_back(std::move(file));
    }
  }
  if (files.empty()) return InvalidArgument("`files` names no file");
  return files;
}

}  // namespace cohort
