#ifndef COHORT_CHIEF_API_CORE_CONVERSION_H_
#define COHORT_CHIEF_API_CORE_CONVERSION_H_

#include "chief/api/closure_request.h"
#include "chief/core/coordinator_core.h"

namespace cohort {

// Converts the types of the C++ API from and to those of the core.

// The result has no token.
ClosureSpec ClosureSpecOf(const ClosureRequest& request);
std::vector<UnfinishedPlace> UnfinishedPlacesOf(const CoordinatorCore& core);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CORE_CONVERSION_H_
