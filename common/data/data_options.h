#ifndef COHORT_COMMON_DATA_DATA_OPTIONS_H_
#define COHORT_COMMON_DATA_DATA_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace cohort {

class Logger;

// A part of a file, as FilePart of proto/data.proto: its head, and bytes [begin, end).
struct FileRange {
  std::string path;  // as the spec names it
  uint64_t bytes = 0;
  int64_t modified_ns = 0;
  uint64_t head = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Options of the process that opens a dataset, beside the spec.
struct DataOptions {
  std::string data_dir;   // base of relative paths (COHORT_DATA_DIR); "" = the working directory
  int threads = 1;        // for reading and transforming records
  Logger* log = nullptr;  // receives what a source leaves out; may be null
  // A file of a stream: its contents are those of this range, and it must not have changed.
  std::optional<FileRange> range;

  // Returns the path of a file that a spec names: absolute, or relative to data_dir. An address,
  // such as https://host/a.csv, stays as it is.
  std::string PathOf(const std::string& path) const {
    if (path.empty() || path[0] == '/' || data_dir.empty()) return path;
    if (path.find("://") != path.npos) return path;
    return data_dir + (data_dir.back() == '/' ? "" : "/") + path;
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_DATA_DATA_OPTIONS_H_
