#ifndef COHORT_CHIEF_API_START_OPTIONS_H_
#define COHORT_CHIEF_API_START_OPTIONS_H_

#include <absl/status/status.h>

#include <string>

#include "chief/api/coordinator.h"
#include "chief/core/core_types.h"

namespace cohort {

// What ClusterCoordinator::Start derives from its options before it touches anything.

// Errors (exit 78): InvalidArgument if a role has no tasks or gaps in their indices, if there is no
// checkpoint directory, or if pull_ahead is too large or does not go with the mode.
absl::Status CheckOptions(const CoordinatorOptions& options);
// How long the tasks have until the cluster serves its variables.
inline double StartTimeoutOf(const CoordinatorOptions& options) {
  return options.start_timeout_s > 0 ? options.start_timeout_s : options.task_timeout_s;
}
// `token`: the checkpoint directory's token. `continued`: the journal has records.
CoreOptions CoreOptionsOf(const CoordinatorOptions& options, const std::string& token,
                          bool continued, const v1::JoinedTasks& joined);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_START_OPTIONS_H_
