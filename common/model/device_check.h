#ifndef COHORT_COMMON_MODEL_DEVICE_CHECK_H_
#define COHORT_COMMON_MODEL_DEVICE_CHECK_H_

#include <absl/status/status.h>

#include <set>
#include <string>

#include "common/base/status.h"
#include "common/model/job_lines.h"

namespace cohort {

namespace v1 {
class JobSpec;
}

// Checks that the cluster has the workers whose devices the layers of the job name, and keeps them.
// Error: InvalidArgument, "FILE:LINE: the device, the workers that there are".
absl::Status CheckDeviceWorkers(const v1::JobSpec& job, const JobLines& lines,
                                const std::set<int>& workers);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_DEVICE_CHECK_H_
