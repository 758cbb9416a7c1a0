#ifndef COHORT_DEPLOY_PROFILE_PROFILE_TEXT_H_
#define COHORT_DEPLOY_PROFILE_PROFILE_TEXT_H_

#include <cstdint>
#include <string>

#include "common/exec/step_profile.h"

namespace cohort {

// Returns the tables of a profile: the phases of a step, its kernels by layer and by op, each with
// time per step, share of the kernels' time, GFLOP/s and GB/s. `update_bytes`: those that the
// optimizers of a step read and write.
std::string ProfileText(const StepProfile& profile, int64_t batch_size, double update_bytes);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PROFILE_PROFILE_TEXT_H_
