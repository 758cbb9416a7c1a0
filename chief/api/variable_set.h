#ifndef COHORT_CHIEF_API_VARIABLE_SET_H_
#define COHORT_CHIEF_API_VARIABLE_SET_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chief/api/keras_class.h"
#include "chief/api/partitioners.h"
#include "common/graph/program.h"

namespace cohort::v1 {
class VariableSpec;
}

namespace cohort {

class ClusterCoordinator;
class LayerNames;
class Model;
class VariableSet;
Model BuildModel(VariableSet* variables, const std::vector<KerasClass>& layers);

// A variable of a VariableSet, as StepTrace reads it.
struct Variable {
  std::string name;
  ValueType type;
};

// The variables of a training loop with their first values, declared once.
//
//   VariableSet variables(/*seed=*/7);
//   const Variable table = variables.AddEmbedding("embedding", 8, 20);
//   const Variable kernel = variables.Add("dense/kernel", {20, 1});
//   const Variable bias = variables.Add("dense/bias", {1}, "zeros");
//   COHORT_RETURN_IF_ERROR(variables.CreateOn(coordinator.get(), "adam"));
//
// Layers (model.h) declare their variables in it when the first step that calls them is traced.
class VariableSet {
 public:
  // `seed`: of the initializers that have no seed of their own. The numbers of two variables differ
  // nevertheless, because the name is part of the key.
  explicit VariableSet(uint64_t seed = 0, DType dtype = DType::kFloat32);
  ~VariableSet();
  VariableSet(const VariableSet&) = delete;
  VariableSet& operator=(const VariableSet&) = delete;

  // The default initializer is that of Keras' Layer.add_weight. The first error of an initializer
  // is kept for Specs.
  Variable Add(std::string_view name, const std::vector<int64_t>& dims,
               const KerasClass& initializer = "glorot_uniform");
  // A table of which steps read only the rows that they need, with the initializer of Keras'
  // Embedding.
  Variable AddEmbedding(std::string_view name, int64_t rows, int64_t width,
                        const KerasClass& initializer = "uniform");

  // The variables in order. Errors: those of MakeInitializerSpec, with the variable's name.
  absl::StatusOr<std::vector<v1::VariableSpec>> Specs() const;
  // Creates the variables of a coordinator. Errors: those of Specs, MakeOptimizerSpec and
  // ClusterCoordinator::CreateVariables.
  absl::Status CreateOn(ClusterCoordinator* coordinator, const KerasClass& optimizer,
                        const VariablePartitioner& partitioner = {},
                        std::string_view placement = "") const;

 private:
  friend class Layer;
  friend Model BuildModel(VariableSet* variables, const std::vector<KerasClass>& layers);

  // Keeps the first error for Specs.
  void Fail(absl::Status status);
  Variable AddSpec(std::string_view name, const std::vector<int64_t>& dims,
                   const KerasClass& initializer, bool row_reads);

  const uint64_t seed_;
  const DType dtype_;
  absl::Status status_;
  std::vector<v1::VariableSpec> specs_;
  const std::unique_ptr<LayerNames> layer_names_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_VARIABLE_SET_H_
