#include "common/optimizers/variable_ops.h"

#include "common/base/status.h"

// The ops of common/optimizers/grid, compiled for each kind of device.
namespace cohort::simulated {
const VariableOps* GridVariableOps();
}
namespace cohort::cuda {
const VariableOps* GridVariableOps();
}

namespace cohort {

absl::StatusOr<const VariableOps*> VariableOps::Of(std::string_view kind) {
  if (kind == "simulated") return simulated::GridVariableOps();
#ifdef COHORT_WITH_CUDA
  if (kind == "cuda") return cuda::GridVariableOps();
#endif
  return Unimplemented("this build has no kernels for variables on devices of kind \"{}\"", kind);
}

}  // namespace cohort
