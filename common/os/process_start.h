#ifndef COHORT_COMMON_OS_PROCESS_START_H_
#define COHORT_COMMON_OS_PROCESS_START_H_

#include "common/base/clock.h"

namespace cohort {

// When the system started this process, before its libraries were loaded, to a hundredth of a
// second. Returns now if the system does not tell.
TimePoint ProcessStart();

// The time in COHORT_LAUNCHED_NS (steady clock, nanoseconds; all processes of a host share that
// clock), which a launcher sets for its children. ProcessStart() if `value` is null or not such a
// number.
TimePoint LaunchTime(const char* value);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_PROCESS_START_H_
