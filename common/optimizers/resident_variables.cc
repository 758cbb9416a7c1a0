#include "common/optimizers/resident_variables.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/device/block_list.h"

namespace cohort {
namespace {

bool SameDims(const ValueType& type, const Dims& dims) {
  return std::equal(type.dims.begin(), type.dims.end(), dims.begin(), dims.end(),
                    [](const Dim& a, int64_t b) { return a.size == b && !a.bounded(); });
}

}  // namespace

DeviceCopies DeviceCopies::On(std::span<const std::shared_ptr<Device>> devices) {
  DeviceCopies copies;
  for (const std::shared_ptr<Device>& device : devices) {
    copies.readers.push_back(std::make_shared<ResidentVariables>(device));
  }
  return copies;
}

absl::Status ResidentVariables::Reserve(const Spec& spec) {
  MutexLock lock(&mu_);
  const auto it = variables_.find(spec.name);
  if (it != variables_.end()) {
    const Variable& there = it->second;
    if (there.at.dtype != spec.dtype || there.dims != spec.dims || there.group != spec.group) {
      return AlreadyExists("variable \"{}\" is in the memory of {} as {}{}, group {}", spec.name,
                           device_->name(), DTypeName(there.at.dtype), DimsToString(there.dims),
                           there.group);
    }
    return ReserveSlots(spec, &it->second);
  }
  Variable variable;
  variable.dims = spec.dims;
  variable.rule = spec.rule;
  variable.group = spec.group;
  DeviceVariable& at = variable.at;
  at.name = spec.name;
  at.dtype = spec.dtype;
  at.rows = spec.dims.empty() ? 1 : spec.dims[0];
  at.row_elements = spec.dims.empty() ? 1 : NumElements(std::span(spec.dims).subspan(1));
  COHORT_ASSIGN_OR_RETURN(variable.memory,
                          device_->Allocate(at.bytes(), "variable \"" + spec.name + "\""));
  at.value = variable.memory.data();
  COHORT_RETURN_IF_ERROR(ReserveSlots(spec, &variable));
  variables_.emplace(spec.name, std::move(variable));
  return absl::OkStatus();
}

// Slots of all rows from the first to the last that anybody needs.
absl::Status ResidentVariables::ReserveSlots(const Spec& spec, Variable* variable) {
  // Integers take no gradient.
  if (spec.rule == nullptr || !IsFloating(spec.dtype) || spec.slot_rows == 0) {
    return absl::OkStatus();
  }
  int64_t first = spec.first_slot_row, end = first + spec.slot_rows;
  if (variable->slot_rows > 0) {
    first = std::min(first, variable->first_slot_row);
    end = std::max(end, variable->first_slot_row + variable->slot_rows);
    if (end - first == variable->slot_rows) return absl::OkStatus();
  }
  variable->first_slot_row = first;
  variable->slot_rows = end - first;
  variable->slots = spec.rule->slots().size();
  const size_t bytes = BlockList::Rounded(
      static_cast<size_t>(variable->slot_rows * variable->at.row_elements) * SizeOf(spec.dtype));
  COHORT_ASSIGN_OR_RETURN(
      variable->slot_memory,
      device_->Allocate(variable->slots * bytes, "slots of variable \"" + spec.name + "\""));
  for (size_t s = 0; s < variable->slots; ++s) {
    variable->at.slots[s] = variable->slot_memory.data() + s * bytes;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint8_t*> ResidentVariables::AddressOf(std::string_view name, int slot,
                                                      int64_t first_row, size_t bytes) const {
  COHORT_ASSIGN_OR_RETURN(const Variable* variable, Find(name));
  const DeviceVariable& at = variable->at;
  const auto row_bytes = static_cast<int64_t>(SizeOf(at.dtype)) * at.row_elements;
  const int64_t offset = first_row - (slot < 0 ? 0 : variable->first_slot_row);
  const int64_t rows = slot < 0 ? at.rows : variable->slot_rows;
  if (slot >= static_cast<int>(variable->slots) || offset < 0 ||
      offset * row_bytes + static_cast<int64_t>(bytes) > rows * row_bytes) {
    return InvalidArgument(
        "{} bytes from row {} on of slot {} of \"{}\", which is {}{} with {} slots", bytes,
        first_row, slot, name, DTypeName(at.dtype), DimsToString(variable->dims), variable->slots);
  }
  return static_cast<uint8_t*>(slot < 0 ? at.value : at.slots[slot]) + offset * row_bytes;
}

absl::Status ResidentVariables::WriteRows(std::string_view name, int slot, int64_t first_row,
                                          std::span<const uint8_t> from) {
  COHORT_ASSIGN_OR_RETURN(uint8_t* const to, AddressOf(name, slot, first_row, from.size()));
  return device_->CopyToDevice(to, from.data(), from.size());
}

absl::Status ResidentVariables::ReadRows(std::string_view name, int slot, int64_t first_row,
                                         std::span<uint8_t> to) const {
  COHORT_ASSIGN_OR_RETURN(const uint8_t* const from, AddressOf(name, slot, first_row, to.size()));
  return device_->CopyToHost(to.data(), from, to.size());
}

absl::StatusOr<const ResidentVariables::Variable*> ResidentVariables::Find(
    std::string_view name) const {
  MutexLock lock(&mu_);
  const auto it = variables_.find(name);
  if (it != variables_.end()) return &it->second;
  return NotFound("the variable \"{}\" is not in the memory of {}", name, device_->name());
}

absl::StatusOr<const ResidentVariables::Variable*> ResidentVariables::Find(
    const VariableDecl& decl) const {
  COHORT_ASSIGN_OR_RETURN(const Variable* variable, Find(decl.name));
  if (variable->at.dtype == decl.type.dtype && SameDims(decl.type, variable->dims)) return variable;
  return InvalidArgument("the program takes the variable \"{}\" for {}, but it is {}{}", decl.name,
                         TypeToString(decl.type), DTypeName(variable->at.dtype),
                         DimsToString(variable->dims));
}

absl::Status ResidentVariables::CopyRows(std::string_view name, int64_t first_row, int64_t rows,
                                         const ResidentVariables& from) {
  COHORT_ASSIGN_OR_RETURN(const Variable* variable, Find(name));
  const size_t bytes =
      static_cast<size_t>(rows * variable->at.row_elements) * SizeOf(variable->at.dtype);
  COHORT_ASSIGN_OR_RETURN(const uint8_t* const there, from.AddressOf(name, -1, first_row, bytes));
  return WriteRows(name, -1, first_row, {there, bytes});
}

size_t ResidentVariables::memory_bytes() const {
  MutexLock lock(&mu_);
  size_t bytes = 0;
  for (const auto& [name, variable] : variables_)
    bytes += variable.memory.bytes() + variable.slot_memory.bytes();
  return bytes;
}

}  // namespace cohort
