#ifndef COHORT_COMMON_OS_PROCESS_START_H_
#define COHORT_COMMON_OS_PROCESS_START_H_

#include "common/base/clock.h"

namespace cohort {

// When this process was started, before main and the loading of its libraries, to a hundredth of a
// second; now where the system does not say.
TimePoint ProcessStart();

// The moment that COHORT_LAUNCHED_NS names (steady clock, nanoseconds: one for all processes of a
// host), which a launcher gives its children; ProcessStart() where `value` is null or no such
// number.
TimePoint LaunchTime(const char* value);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_PROCESS_START_H_
