#ifndef COHORT_COMMON_WEIGHTS_LAYER_GROUPS_H_
#define COHORT_COMMON_WEIGHTS_LAYER_GROUPS_H_

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <vector>

#include "common/schema/model_layer.h"
#include "common/weights/weight_source.h"

namespace cohort::v1 {
class VariableSpec;
}

namespace cohort {

// The names of a source's tensors in the model, if it names layers by class and number:
// "inner/zed/0" for "functional/dense_1/0". A tensor of a class that has no variables in the model
// gets "".
//
// The layers of each class must be as many as in the model. Otherwise a number could mean another
// layer, and an error is better than values in a wrong layer. Errors: InvalidArgument, also if the
// order of the layers is not known (`layers` is empty).
absl::StatusOr<std::vector<std::string>> NamesByClass(const WeightSource& source,
                                                      std::span<const ModelLayer> layers,
                                                      std::span<const v1::VariableSpec> variables);

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_LAYER_GROUPS_H_
