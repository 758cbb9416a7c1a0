#ifndef COHORT_COMMON_MODEL_CLIPPED_PUSHES_H_
#define COHORT_COMMON_MODEL_CLIPPED_PUSHES_H_

#include <absl/status/statusor.h>

#include "common/base/status.h"
#include "common/graph/program.h"

namespace cohort {

namespace v1 {
class Layout;
}

// If servers apply each push by itself, the worker clips its gradients before it pushes them,
// because only the worker has those of all variables. (In mode sync, servers clip the sum of a
// step.)

// Returns the program with gradients that are clipped as the optimizers of the layout demand.
// Divided by the weight of the loss, a push is a clipped gradient of the mean loss. Gradients that
// are clipped already stay as they are. Needs only `variables` and `optimizers` of the layout;
// other variables are not clipped. Errors: those of CompleteOptimizer.
absl::StatusOr<Program> ClipPushes(const Program& program, const v1::Layout& layout);

// Returns the program with gradients that are rounded to bfloat16 (`gradient_dtype`), after they
// were clipped.
absl::StatusOr<Program> RoundPushes(const Program& program);

// True if ClipPushes changes nothing. Errors: as above.
absl::StatusOr<bool> PushesAreClipped(const Program& program, const v1::Layout& layout);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_CLIPPED_PUSHES_H_
