#ifndef COHORT_DEPLOY_PROFILE_PROFILE_TEXT_H_
#define COHORT_DEPLOY_PROFILE_PROFILE_TEXT_H_

#include <cstdint>
#include <string>

#include "common/exec/step_profile.h"

namespace cohort {

// Returns the tables of a profile: the phases of a step, its kernels by layer and by op, each with
// time per step, share of the kernels' time, GFLOP/s and GB/s.
std::string ProfileText(const StepProfile& profile, int64_t batch_size);

}  // namespace cohort

#endif  // COHORT_DEPLOY_PROFILE_PROFILE_TEXT_H_
