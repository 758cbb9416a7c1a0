#ifndef COHORT_COMMON_MODEL_PLANNED_NAMES_H_
#define COHORT_COMMON_MODEL_PLANNED_NAMES_H_

#include <absl/status/status.h>

#include <span>
#include <string_view>

namespace cohort {

// Returns true if Keras or TensorFlow's strategies have this name and this version of Cohort does
// not have it yet. The error then explains that, instead of calling the name unknown. `kind` is
// "layer", "activation", "initializer", "optimizer", "loss", "metric", "mode" or "key".
bool IsPlannedName(std::string_view kind, std::string_view name);

// Returns the error for a name that is not in `known`: Unimplemented for a planned name, else
// InvalidArgument with the nearest known name. Both list `known`, followed by `note`.
absl::Status NoSuchName(std::string_view kind, std::string_view name,
                        std::span<const std::string_view> known, std::string_view note = "");

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_PLANNED_NAMES_H_
