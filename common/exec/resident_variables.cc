#include "common/exec/resident_variables.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/device/block_list.h"

namespace cohort {
namespace {

Tensor FreshSlot(const SlotInfo& slot, const Tensor& value) {
  Tensor t(value.dtype(), value.dims());
  if (t.dtype() == DType::kFloat32) {
    std::ranges::fill(t.mutable_values<float>(), static_cast<float>(slot.initial_value));
  } else {
    std::ranges::fill(t.mutable_values<double>(), slot.initial_value);
  }
  return t;
}

bool SameDims(const ValueType& type, const Dims& dims) {
  return std::equal(type.dims.begin(), type.dims.end(), dims.begin(), dims.end(),
                    [](const Dim& a, int64_t b) { return a.size == b && !a.bounded(); });
}

// Tensor 0 is the value, the others are the slots.
void* TensorAt(const ResidentVariables::Variable& variable, size_t i) {
  return i == 0 ? variable.at.value : variable.at.slots[i - 1];
}

}  // namespace

absl::Status ResidentVariables::Add(std::string_view name, const Tensor& value,
                                    const OptimizerRule* rule) {
  if (variables_.contains(name)) return AlreadyExists("variable \"{}\" is there already", name);
  std::vector<Tensor> tensors = {value};
  // Integers take no gradient.
  if (rule != nullptr && IsFloating(value.dtype())) {
    for (const SlotInfo& slot : rule->slots()) tensors.push_back(FreshSlot(slot, value));
  }
  Variable variable;
  variable.dims = value.dims();
  variable.rule = rule;
  variable.slots = tensors.size() - 1;
  const size_t bytes = BlockList::Rounded(value.num_bytes());
  COHORT_ASSIGN_OR_RETURN(variable.memory, device_->Allocate(tensors.size() * bytes,
                                                             fmt::format("variable \"{}\"", name)));
  DeviceVariable& at = variable.at;
  at.name = std::string(name);
  at.dtype = value.dtype();
  at.rows = value.dims().empty() ? 1 : value.dims()[0];
  at.row_elements = value.dims().empty() ? 1 : NumElements(std::span(value.dims()).subspan(1));
  at.value = variable.memory.data();
  for (size_t s = 0; s < variable.slots; ++s)
    at.slots[s] = variable.memory.data() + (s + 1) * bytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    COHORT_RETURN_IF_ERROR(device_->CopyToDevice(
        TensorAt(variable, i), std::as_const(tensors[i]).raw(), tensors[i].num_bytes()));
  }
  variables_.emplace(name, std::move(variable));
  return absl::OkStatus();
}

absl::StatusOr<const ResidentVariables::Variable*> ResidentVariables::FindByName(
    std::string_view name) const {
  const auto it = variables_.find(name);
  if (it != variables_.end()) return &it->second;
  return NotFound("the variable \"{}\" is not in the memory of {}", name, device_->name());
}

absl::StatusOr<const ResidentVariables::Variable*> ResidentVariables::Find(
    const VariableDecl& decl) const {
  COHORT_ASSIGN_OR_RETURN(const Variable* variable, FindByName(decl.name));
  if (variable->at.dtype == decl.type.dtype && SameDims(decl.type, variable->dims)) return variable;
  return InvalidArgument("the program takes the variable \"{}\" for {}, but it is {}{}", decl.name,
                         TypeToString(decl.type), DTypeName(variable->at.dtype),
                         DimsToString(variable->dims));
}

absl::StatusOr<std::vector<Tensor>> ResidentVariables::Download(std::string_view name) const {
  COHORT_ASSIGN_OR_RETURN(const Variable* variable, FindByName(name));
  std::vector<Tensor> tensors;
  for (size_t i = 0; i <= variable->slots; ++i) {
    Tensor t(variable->at.dtype, variable->dims);
    COHORT_RETURN_IF_ERROR(device_->CopyToHost(t.raw(), TensorAt(*variable, i), t.num_bytes()));
    tensors.push_back(std::move(t));
  }
  return tensors;
}

absl::Status ResidentVariables::Upload(std::string_view name, std::span<const Tensor> tensors) {
  COHORT_ASSIGN_OR_RETURN(const Variable* variable, FindByName(name));
  if (tensors.size() != variable->slots + 1) {
    return InvalidArgument("variable \"{}\" has {} slots, but is given {} tensors", name,
                           variable->slots, tensors.size());
  }
  for (const Tensor& t : tensors) {
    if (t.dtype() == variable->at.dtype && t.dims() == variable->dims) continue;
    return InvalidArgument("variable \"{}\" is {}{}, but is given {}{}", name,
                           DTypeName(variable->at.dtype), DimsToString(variable->dims),
                           DTypeName(t.dtype()), DimsToString(t.dims()));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    COHORT_RETURN_IF_ERROR(
        device_->CopyToDevice(TensorAt(*variable, i), tensors[i].raw(), tensors[i].num_bytes()));
  }
  return absl::OkStatus();
}

size_t ResidentVariables::memory_bytes() const {
  size_t bytes = 0;
  for (const auto& [name, variable] : variables_) bytes += variable.memory.bytes();
  return bytes;
}

}  // namespace cohort
