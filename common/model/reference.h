#ifndef COHORT_COMMON_MODEL_REFERENCE_H_
#define COHORT_COMMON_MODEL_REFERENCE_H_

#include <string>

namespace cohort {

// Returns the output of `cohort reference`: every class that a job file may name, with its
// arguments, in Markdown. docs/job_file.md contains it.
std::string ClassReference();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_REFERENCE_H_
