#ifndef COHORT_COMMON_OPTIMIZERS_CONSTRAINTS_H_
#define COHORT_COMMON_OPTIMIZERS_CONSTRAINTS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/optimizers/optimizer_rules.h"
#include "common/schema/class_registry.h"

namespace cohort {

// One constraint of Keras (keras/src/constraints/constraints.py): an entry of Constraints().
struct ConstraintClass {
  ClassSchema schema;
  // The norm that a vector with this norm gets, by which it is scaled. Null: elements below 0
  // become 0. `config` is complete.
  double (*norm)(const Config& config, double norm) = nullptr;
};

const ClassRegistry<ConstraintClass>& Constraints();
const SchemaSet& ConstraintSchemas();

// The argument of a layer that constrains one of its weights: "kernel_constraint". Its default is
// none. Servers apply it after each update of the weight.
Argument ConstraintArgument(std::string_view name);

// The constraint of one variable. Constant.
class Constraint {
 public:
  // Completes the config. Errors: those of CompleteConfig; InvalidArgument for an axis that the
  // variable lacks.
  static absl::StatusOr<Constraint> Create(const v1::ClassConfig& config,
                                           std::span<const int64_t> dims);

  // What an element depends on: its row, if no vector goes along axis 0.
  UpdateScope scope() const { return scope_; }
  // Constrains a range as large as the scope demands.
  void Apply(float* values, int64_t elements) const;
  void Apply(double* values, int64_t elements) const;

 private:
  template <typename T>
  void Scale(T* values, int64_t elements) const;

  const ConstraintClass* class_ = nullptr;
  v1::ClassConfig config_;
  UpdateScope scope_ = UpdateScope::kElement;
  std::vector<int64_t> dims_;     // a row's, or the variable's if vectors go along axis 0
  std::vector<int64_t> strides_;  // from element to element of an axis: the change of the vector
  int64_t vectors_ = 1;           // in a row, or in the variable
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_CONSTRAINTS_H_
