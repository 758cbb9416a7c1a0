#ifndef COHORT_COMMON_MODEL_JOB_CHECK_H_
#define COHORT_COMMON_MODEL_JOB_CHECK_H_

#include <absl/status/status.h>

#include "common/base/status.h"
#include "common/model/job_lines.h"

namespace cohort {

namespace v1 {
class JobSpec;
}

// Checks a job for keys that are missing, out of range, contradictory, or not supported yet.
// Errors: InvalidArgument or Unimplemented, "FILE:LINE: what is wrong, what to do".
absl::Status CheckJob(const v1::JobSpec& job, const JobLines& lines);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_JOB_CHECK_H_
