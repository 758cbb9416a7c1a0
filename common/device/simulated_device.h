#ifndef COHORT_COMMON_DEVICE_SIMULATED_DEVICE_H_
#define COHORT_COMMON_DEVICE_SIMULATED_DEVICE_H_

#include <cstdint>
#include <memory>

#include "common/device/device.h"

namespace cohort {

// A GPU without a GPU, "simulated:0": its memory is that of the process, and its kernels run as
// plain loops. So everything around kernels is tested on machines that have none.
//
// It is as unhelpful as a device may be: memory begins as NaN; what a graph will write to the host
// is NaN from Launch to Wait; nothing runs before Wait; and then the ops run in an order that is
// drawn from the seed among those which the graph allows. Code that reads too early, or a graph
// that lacks an edge, computes nonsense.
std::shared_ptr<Device> MakeSimulatedDevice(int ordinal, uint64_t seed = 1,
                                            size_t memory_bytes = size_t{16} << 30);

}  // namespace cohort

#endif  // COHORT_COMMON_DEVICE_SIMULATED_DEVICE_H_
