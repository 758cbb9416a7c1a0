#ifndef COHORT_COMMON_MODEL_PLANNED_NAMES_H_
#define COHORT_COMMON_MODEL_PLANNED_NAMES_H_

#include <string_view>

namespace cohort {

// Returns true if TensorFlow or a later version of Cohort has this name, and this version does not.
// The error then explains that, instead of calling the name unknown. `kind` is "key". (Classes have
// such names in their registries.)
bool IsPlannedName(std::string_view kind, std::string_view name);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_PLANNED_NAMES_H_
