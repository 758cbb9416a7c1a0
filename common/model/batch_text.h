#ifndef COHORT_COMMON_MODEL_BATCH_TEXT_H_
#define COHORT_COMMON_MODEL_BATCH_TEXT_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"

namespace cohort {

// The closures of a synchronous step whose gradients count: with `backup_work: drop` not all of
// them.
uint32_t UsedClosures(const v1::StrategySpec& strategy, uint32_t closures_per_step);

// Returns the line that states how many records a closure has and how many an update is made of, as
// `cohort check` and the start of a job print it. `closures_per_step` is 0 if it is not known yet.
std::string BatchText(const v1::JobSpec& job, uint32_t closures_per_step);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_BATCH_TEXT_H_
