#ifndef COHORT_COMMON_WEIGHTS_INITIAL_WEIGHTS_H_
#define COHORT_COMMON_WEIGHTS_INITIAL_WEIGHTS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <span>
#include <string>

#include "common/weights/weight_match.h"
#include "common/weights/weight_source.h"

namespace cohort {

// The key `initial_weights` of a job, applied to the variables of its model.
struct InitialWeights {
  std::unique_ptr<WeightSource> source;
  WeightMatch match;

  std::string Text() const { return match.Text(*source); }
};

// Opens the source and matches its tensors. A relative path is in the directory of `job_file`;
// `layers` are JobFile::layers.
// Errors: those of OpenWeights and MatchWeights.
absl::StatusOr<InitialWeights> FindInitialWeights(const v1::InitialWeightsSpec& spec,
                                                  const std::string& job_file,
                                                  std::span<const v1::VariableSpec> variables,
                                                  std::span<const ModelLayer> layers);

// The file in the checkpoint directory from which servers take the values that variables begin with
// (AssignTablets.initial_values). Until the first checkpoint is committed, a rollback needs it.
inline constexpr char kInitialValuesName[] = "initial_weights.safetensors";

// Reads all values and keeps none. Errors: those of WeightSource::Read.
absl::Status CheckInitialValues(const InitialWeights& weights,
                                std::span<const v1::VariableSpec> variables);

// Writes the values to a safetensors file whose tensors have the names and types of the
// variables, and whose metadata names the job. `job` is JobPlan::identity(). The file is complete
// and durable when this returns OK; before, `path` is as it was. Errors: those of
// WeightSource::Read, and of the storage.
absl::Status WriteInitialValues(const InitialWeights& weights,
                                std::span<const v1::VariableSpec> variables, const std::string& job,
                                const std::string& path);

// Returns true if `path` is a complete file that WriteInitialValues has written for this job.
// Errors: those of the storage.
absl::StatusOr<bool> HoldsInitialValues(const std::string& path, const std::string& job);

}  // namespace cohort

#endif  // COHORT_COMMON_WEIGHTS_INITIAL_WEIGHTS_H_
