#include "chief/api/variable_set.h"

#include <utility>

#include "chief/api/coordinator.h"
#include "common/base/status.h"
#include "common/model/layers/layer_names.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {

VariableSet::VariableSet(uint64_t seed, DType dtype)
    : seed_(seed), dtype_(dtype), layer_names_(std::make_unique<LayerNames>()) {}
VariableSet::~VariableSet() = default;

Variable VariableSet::Add(std::string_view name, const std::vector<int64_t>& dims,
                          const KerasClass& initializer) {
  return AddSpec(name, dims, initializer, /*row_reads=*/false);
}

Variable VariableSet::AddEmbedding(std::string_view name, int64_t rows, int64_t width,
                                   const KerasClass& initializer) {
  return AddSpec(name, {rows, width}, initializer, /*row_reads=*/true);
}

Variable VariableSet::AddSpec(std::string_view name, const std::vector<int64_t>& dims,
                              const KerasClass& initializer, bool row_reads) {
  Variable variable{std::string(name), {dtype_, {}}};
  v1::VariableSpec spec;
  spec.set_name(variable.name);
  spec.set_dtype(static_cast<v1::DType>(dtype_));
  spec.set_trainable(true);
  spec.set_row_reads(row_reads);
  for (const int64_t size : dims) {
    spec.add_dims(size);
    variable.type.dims.push_back({size, 0});
  }
  auto first_values = MakeInitializerSpec(initializer, seed_, dims);
  if (first_values.ok()) {
    *spec.mutable_initializer() = *std::move(first_values);
  } else {
    Fail(Annotate(first_values.status(), variable.name));
  }
  specs_.push_back(std::move(spec));
  return variable;
}

void VariableSet::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

absl::StatusOr<std::vector<v1::VariableSpec>> VariableSet::Specs() const {
  if (!status_.ok()) return status_;
  return specs_;
}

absl::Status VariableSet::CreateOn(ClusterCoordinator* coordinator, const KerasClass& optimizer,
                                   const VariablePartitioner& partitioner,
                                   std::string_view placement) const {
  COHORT_ASSIGN_OR_RETURN(const auto specs, Specs());
  COHORT_ASSIGN_OR_RETURN(const auto rule, MakeOptimizerSpec(optimizer));
  return coordinator->CreateVariables(specs, rule, partitioner, placement);
}

}  // namespace cohort
