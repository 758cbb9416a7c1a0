#ifndef COHORT_DEPLOY_PROFILE_PROFILE_JOB_H_
#define COHORT_DEPLOY_PROFILE_PROFILE_JOB_H_

#include <absl/status/statusor.h>

#include <string>

#include "deploy/profile/profile_options.h"

namespace cohort {

// Runs a few training steps of a job in this process, with all variables here and without a
// network, and returns a text with their times. Writes the trace if there is a file for it. Errors:
// those of the job, its data and its model; InvalidArgument for a flag out of range; Unavailable if
// the trace cannot be written.
absl::StatusOr<std::string> ProfileJob(const ProfileOptions& options);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PROFILE_PROFILE_JOB_H_
