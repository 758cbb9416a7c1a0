#ifndef COHORT_COMMON_MODEL_NOT_YET_H_
#define COHORT_COMMON_MODEL_NOT_YET_H_

#include <absl/status/status.h>

#include <span>
#include <string_view>

namespace cohort {

// Whether people may well write this in a job file, because Keras has it, or TensorFlow's
// strategies, and this version of Cohort does not: `kind` is "layer", "activation", "initializer",
// "optimizer", "loss", "metric", "mode" or "key". They are told so, and not that there is no such
// thing.
bool IsNotYet(std::string_view kind, std::string_view name);

// The error for a name that is none of `known`: Unimplemented where IsNotYet, else InvalidArgument
// with the nearest one. Both list what there is, and then `note`.
absl::Status NoSuchName(std::string_view kind, std::string_view name,
                        std::span<const std::string_view> known, std::string_view note = "");

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_NOT_YET_H_
