#ifndef COHORT_COMMON_WEIGHTS_WEIGHT_MATCH_H_
#define COHORT_COMMON_WEIGHTS_WEIGHT_MATCH_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/schema/model_layer.h"
#include "common/weights/weight_source.h"

namespace cohort::v1 {
class InitialWeightsSpec;
class VariableSpec;
}  // namespace cohort::v1

namespace cohort {

// Which tensors of a source the variables of a model begin with.
struct WeightMatch {
  struct Pair {
    size_t variable = 0;  // index of the model's variables
    size_t tensor = 0;    // index of WeightSource::tensors()
  };
  std::vector<Pair> loaded;         // in the order of the variables
  std::vector<std::string> kept;    // variables that keep their initializers
  std::vector<std::string> unused;  // tensors that no variable begins with

  // "5 of 7 variables begin with the values of PATH. ..." and lists of the others.
  std::string Text(const WeightSource& source) const;
};

// Finds the tensor of each variable that `include` and `exclude` leave: the one with its name after
// `rename`, or with its layer and its number in the layer ("dense/0"). In a nested model the ends
// of names decide (SourceTensor::model_bytes). If the source names layers by class, `layers` of the
// model give the names (JobFile::layers), unless the job has `rename`: then only its rules do.
// Errors: InvalidArgument if a pattern or a `from` matches nothing, if two tensors belong to one
// variable, if shapes differ (without `skip_mismatch`), if no variable has a tensor, or if the
// layers of the source are not those of the model.
absl::StatusOr<WeightMatch> MatchWeights(const v1::InitialWeightsSpec& spec,
                                         std::span<const v1::VariableSpec> variables,
                                         std::span<const ModelLayer> layers,
                                         const WeightSource& source);

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_WEIGHT_MATCH_H_
