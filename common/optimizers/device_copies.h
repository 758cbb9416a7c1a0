#ifndef COHORT_COMMON_OPTIMIZERS_DEVICE_COPIES_H_
#define COHORT_COMMON_OPTIMIZERS_DEVICE_COPIES_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace cohort {

class Device;
class ResidentUpdate;
class ResidentVariables;

// The variables on one device, as steps there read them.
using DeviceReader = std::shared_ptr<ResidentVariables>;

// Where variables lie besides their blocks in the host's memory.
struct DeviceCopies {
  // A reader on each device, with the first of them as home, and no variables yet.
  static DeviceCopies On(std::span<const std::shared_ptr<Device>> devices);

  // The devices whose steps read them; each has variables of its own. All are of one kind.
  std::vector<DeviceReader> readers;
  size_t home = 0;  // the reader that has the slots, too, and where updates are applied
};

// How the steps of a program on a device push and read variables there. All null: they push values
// in the host's memory, and read them there.
struct DeviceParts {
  // Applies what a step has left there; its push has no values. Null: it has values.
  ResidentUpdate* update = nullptr;
  // Not null: the values of pushed gradients are in the memory of this device.
  Device* gradients = nullptr;
  // Not null: the steps read the variables here, so that a pull has no values.
  const ResidentVariables* reader = nullptr;
};

}  // namespace cohort

#endif  // COHORT_COMMON_OPTIMIZERS_DEVICE_COPIES_H_
