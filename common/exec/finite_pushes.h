#ifndef COHORT_COMMON_EXEC_FINITE_PUSHES_H_
#define COHORT_COMMON_EXEC_FINITE_PUSHES_H_

#include <span>

#include "common/exchange/variable_access.h"
#include "common/graph/program.h"

namespace cohort {

// Returns true if no floating value of these pushes, which are those of the program in its order,
// is NaN or infinite. Reads all of their values once.
bool PushesAreFinite(const Program& program, std::span<const PushItem> pushes);

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_FINITE_PUSHES_H_
