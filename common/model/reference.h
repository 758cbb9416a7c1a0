#ifndef COHORT_COMMON_MODEL_REFERENCE_H_
#define COHORT_COMMON_MODEL_REFERENCE_H_

#include <string>

namespace cohort {

// Returns the output of `cohort reference`: every class that a job file may name, with its
// arguments, in Markdown. docs/job_file.md contains it.
std::string ClassReference();

// Returns the output of `cohort reference --json`, for programs that write job files: by kind
// ("layers", "operations", "losses", ...) the classes and their arguments, with `default` if they
// have one and `planned` if only the default is accepted. Layers and operations also have `call`,
// the tensors of Keras' `call` in their order (empty: the first takes all), and how many inputs
// they take.
std::string ClassReferenceJson();

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_REFERENCE_H_
