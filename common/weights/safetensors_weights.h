#ifndef COHORT_COMMON_WEIGHTS_SAFETENSORS_WEIGHTS_H_
#define COHORT_COMMON_WEIGHTS_SAFETENSORS_WEIGHTS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>

#include "common/weights/weight_source.h"

namespace cohort {

// A safetensors file whose tensors have the names of variables. Errors: those of
// SafetensorsReader::Open.
absl::StatusOr<std::unique_ptr<WeightSource>> OpenSafetensorsWeights(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_SAFETENSORS_WEIGHTS_H_
