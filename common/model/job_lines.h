#ifndef COHORT_COMMON_MODEL_JOB_LINES_H_
#define COHORT_COMMON_MODEL_JOB_LINES_H_

#include <map>
#include <string>
#include <string_view>

namespace cohort {

// The lines of the keys of a job file, so that a later error can name the line.
struct JobLines {
  std::string file;                              // as the user named it
  std::map<std::string, int, std::less<>> keys;  // "model.layers[2].units" -> 1-based line

  // Returns "job.yaml:14": the line of the key, or of the nearest key around it.
  std::string Where(std::string_view path) const;
};

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_LINES_H_
