#include "common/tablet/device_row_sum.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace cohort {
namespace {

template <typename T>
absl::Status FillWithNothing(Device* device, const DeviceMemory& memory) {
  const std::vector<T> nothing(memory.bytes() / sizeof(T), static_cast<T>(-0.0));
  return device->CopyToDevice(memory.data(), nothing.data(), nothing.size() * sizeof(T));
}

}  // namespace

absl::Status DeviceRowSum::Grow(size_t places, size_t rows) {
  const size_t needed = std::max(places, rows);
  if (needed <= capacity_) return absl::OkStatus();
  capacity_ = std::max(needed, 2 * capacity_);
  const size_t bytes = capacity_ * info_->row_bytes();
  const std::string purpose = "the sum of gradients of \"" + info_->variable + "\"";
  COHORT_ASSIGN_OR_RETURN(DeviceMemory sums, device_->Allocate(bytes, purpose));
  COHORT_RETURN_IF_ERROR(
      device_->CopyToDevice(sums.data(), sums_.data(), used_ * info_->row_bytes()));
  sums_ = std::move(sums);
  COHORT_ASSIGN_OR_RETURN(nothing_, device_->Allocate(bytes, purpose));
  COHORT_ASSIGN_OR_RETURN(incoming_, device_->Allocate(bytes, purpose));
  const size_t key_bytes = capacity_ * sizeof(int64_t);
  COHORT_ASSIGN_OR_RETURN(places_, device_->Allocate(key_bytes, purpose));
  COHORT_ASSIGN_OR_RETURN(keys_, device_->Allocate(key_bytes, purpose));
  COHORT_RETURN_IF_ERROR(info_->dtype == DType::kFloat32
                             ? FillWithNothing<float>(device_.get(), nothing_)
                             : FillWithNothing<double>(device_.get(), nothing_));
  return MakeOps();
}

absl::Status DeviceRowSum::MakeOps() {
  COHORT_ASSIGN_OR_RETURN(const VariableOps* ops, VariableOps::Of(device_->kind()));
  const auto rows = static_cast<int64_t>(capacity_);
  const DeviceVariable sums = {.name = info_->variable,
                               .dtype = info_->dtype,
                               .rows = rows,
                               .row_elements = info_->row_elements,
                               .value = sums_.data()};
  const DeviceKeys places = {reinterpret_cast<const int64_t*>(places_.data()), rows};
  COHORT_ASSIGN_OR_RETURN(auto add,
                          ops->AssignAdd(sums, {.values = incoming_.data(), .rows = places}));
  COHORT_ASSIGN_OR_RETURN(add_, VariableOpRun::Make(device_, std::move(add)));
  COHORT_ASSIGN_OR_RETURN(auto gather, ops->ReadRows(sums, places, incoming_.data()));
  COHORT_ASSIGN_OR_RETURN(gather_, VariableOpRun::Make(device_, std::move(gather)));
  return absl::OkStatus();
}

absl::Status DeviceRowSum::Add(const uint8_t* values, std::span<const int64_t> places,
                               size_t used) {
  if (places.empty()) return absl::OkStatus();
  COHORT_RETURN_IF_ERROR(Grow(used, places.size()));
  const size_t row_bytes = info_->row_bytes();
  COHORT_RETURN_IF_ERROR(device_->CopyToDevice(sums_.data() + used_ * row_bytes, nothing_.data(),
                                               (used - used_) * row_bytes));
  used_ = used;
  COHORT_RETURN_IF_ERROR(
      device_->CopyToDevice(incoming_.data(), values, places.size() * row_bytes));
  COHORT_RETURN_IF_ERROR(device_->CopyToDevice(places_.data(), places.data(), places.size_bytes()));
  return add_->Run({.keys = static_cast<int64_t>(places.size())});
}

absl::StatusOr<DeviceGradient> DeviceRowSum::Sort(std::span<const int64_t> places,
                                                  std::span<const int64_t> keys) {
  COHORT_RETURN_IF_ERROR(Grow(places.size(), places.size()));
  COHORT_RETURN_IF_ERROR(device_->CopyToDevice(places_.data(), places.data(), places.size_bytes()));
  COHORT_RETURN_IF_ERROR(device_->CopyToDevice(keys_.data(), keys.data(), keys.size_bytes()));
  const auto count = static_cast<int64_t>(places.size());
  COHORT_RETURN_IF_ERROR(gather_->Run({.keys = count}));
  return DeviceGradient{.push = {.values = incoming_.data(),
                                 .rows = {reinterpret_cast<const int64_t*>(keys_.data()),
                                          static_cast<int64_t>(capacity_)}},
                        .keys = count};
}

}  // namespace cohort
