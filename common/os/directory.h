#ifndef COHORT_COMMON_OS_DIRECTORY_H_
#define COHORT_COMMON_OS_DIRECTORY_H_

#include <absl/status/status.h>

#include <string>

namespace cohort {

// Makes a directory and those above it; one that is there already is no error. Errors: exit 73,
// naming the path and what the system said; ResourceExhausted (exit 74) for want of room.
absl::Status MakeDirectories(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_DIRECTORY_H_
