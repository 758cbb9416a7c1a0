#ifndef COHORT_COMMON_OS_DIRECTORY_H_
#define COHORT_COMMON_OS_DIRECTORY_H_

#include <absl/status/statusor.h>

#include <string>

namespace cohort {

// Creates a directory and its parents. Returns OK if it exists. Errors: exit code 73, with the path
// and the system's reason; ResourceExhausted (exit code 74) if the disk is full.
absl::Status MakeDirectories(const std::string& path);

// Creates a new directory "<name>.<random>" in `parent`, or in $TMPDIR or /tmp if that is "".
// Errors: exit code 73.
absl::StatusOr<std::string> MakeTemporaryDirectory(const std::string& name,
                                                   const std::string& parent = "");

// True if what lies there takes memory: a tmpfs or ramfs, as /tmp is on many systems.
bool IsInMemory(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_DIRECTORY_H_
