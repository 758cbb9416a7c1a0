#ifndef COHORT_CHIEF_CORE_LOST_TASK_H_
#define COHORT_CHIEF_CORE_LOST_TASK_H_

#include <absl/status/status.h>

#include <string>

#include "common/base/status.h"

namespace cohort {

// Returns Unavailable with the typed payload of a lost task: a retry, elsewhere or later, may
// succeed.
inline absl::Status LostTask(const char* role, int index, uint64_t incarnation,
                             const std::string& message) {
  absl::Status status = Unavailable("{}", message);
  SetFailure(&status,
             {.role = role, .index = index, .incarnation = incarnation, .retryable = true});
  return status;
}

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_LOST_TASK_H_
