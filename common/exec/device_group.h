#ifndef COHORT_COMMON_EXEC_DEVICE_GROUP_H_
#define COHORT_COMMON_EXEC_DEVICE_GROUP_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/device/device.h"
#include "common/exec/compiled_program.h"
#include "common/exec/device_step.h"
#include "common/exec/value_table.h"

namespace cohort {

// The devices that run the main steps of a program. Several share the examples of each batch:
// device d has those from d * share on. Each computes what the whole program computes of its
// examples; then the host joins the results in order of the devices: gradients, sums and weights
// are added, moving averages are weighted by examples, outputs of examples are put one after
// another.
class DeviceGroup {
 public:
  // `host`: the table of all values in the host's memory. All outlive this object. `options`: each
  // device gets them with its share of the examples. Errors: ResourceExhausted: a device lacks
  // memory; Unimplemented: the batch cannot be shared; those of DeviceStep::Make.
  static absl::StatusOr<std::unique_ptr<DeviceGroup>> Make(
      const CompiledProgram& compiled, std::span<const std::shared_ptr<Device>> devices,
      const ValueTable* host, DeviceStep::Options options);

  // Runs the main steps on what the host's table holds now, which uses this lane and push area.
  // Errors: those of kernels, naming the node; those of the devices.
  absl::Status Run(int lane, int area, const RandomKey& key);

  // See DeviceStep::ApplyPushes: the only device has the variables.
  absl::Status ApplyPushes(uint32_t group, uint64_t step) {
    return steps_[0]->ApplyPushes(group, step);
  }

  // Where a value of the newest run lies on the only device.
  const void* DeviceData(ValueId v) const { return steps_[0]->result_view(v).data; }

  size_t memory_bytes() const;
  int64_t transfer_bytes() const;

 private:
  enum class Join : uint8_t { kSum, kMean, kMin, kMax, kRows };
  struct Result {
    ValueId value = kNoValue;
    Join join = Join::kSum;
  };

  DeviceGroup(const CompiledProgram& compiled, const ValueTable* host)
      : compiled_(compiled), host_(host) {}
  void AddResults();
  void JoinResults();
  template <typename T>
  void JoinValue(const Result& result);

  const CompiledProgram& compiled_;
  const ValueTable* const host_;
  std::vector<std::unique_ptr<CompiledProgram>> shares_;  // by device, if there are several
  std::vector<std::unique_ptr<DeviceStep>> steps_;        // by device
  std::vector<Result> results_;                           // that the devices compute; of several
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_DEVICE_GROUP_H_
