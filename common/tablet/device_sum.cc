#include "common/tablet/device_sum.h"

#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<DeviceSum>> DeviceSum::Make(std::shared_ptr<Device> device,
                                                           const ShardInfo& info) {
  std::unique_ptr<DeviceSum> sum(new DeviceSum(std::move(device), info.dtype));
  const size_t bytes = static_cast<size_t>(info.elements()) * sum->element_;
  const std::string purpose = "the sum of gradients of \"" + info.variable + "\"";
  COHORT_ASSIGN_OR_RETURN(sum->sum_, sum->device_->Allocate(bytes, purpose));
  COHORT_ASSIGN_OR_RETURN(sum->incoming_, sum->device_->Allocate(bytes, purpose));
  COHORT_ASSIGN_OR_RETURN(const VariableOps* ops, VariableOps::Of(sum->device_->kind()));
  const DeviceVariable to = {.name = info.variable,
                             .dtype = info.dtype,
                             .rows = info.rows,
                             .row_elements = info.row_elements,
                             .value = sum->sum_.data()};
  COHORT_ASSIGN_OR_RETURN(auto op, ops->AssignAdd(to, {.values = sum->incoming_.data()}));
  COHORT_ASSIGN_OR_RETURN(sum->add_, VariableOpRun::Make(sum->device_, std::move(op)));
  return sum;
}

absl::Status DeviceSum::Add(std::span<const PushEntryView> parts, bool first) {
  const DeviceMemory& to = first ? sum_ : incoming_;
  for (const PushEntryView& part : parts) {
    uint8_t* at = to.data() + part.begin * element_;
    const auto copy = [&](std::span<const uint8_t> bytes) {
      uint8_t* const here = at;
      at += bytes.size();
      return device_->CopyToDevice(here, bytes.data(), bytes.size());
    };
    if (part.pieces.empty()) COHORT_RETURN_IF_ERROR(copy(part.values));
    for (const auto& piece : part.pieces) COHORT_RETURN_IF_ERROR(copy(piece));
  }
  return first ? absl::OkStatus() : add_->Run({});
}

}  // namespace cohort
