#ifndef COHORT_COMMON_DATA_DATA_OPTIONS_H_
#define COHORT_COMMON_DATA_DATA_OPTIONS_H_

#include <string>

namespace cohort {

class Logger;

// Options of the process that opens a dataset, beside the spec.
struct DataOptions {
  std::string data_dir;   // base of relative paths (COHORT_DATA_DIR); "" = the working directory
  int threads = 1;        // for reading and transforming records
  Logger* log = nullptr;  // receives what a source leaves out; may be null

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
