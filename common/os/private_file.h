#ifndef COHORT_COMMON_OS_PRIVATE_FILE_H_
#define COHORT_COMMON_OS_PRIVATE_FILE_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace cohort {

// A file that only its user may read, such as a key. It belongs to the user of this process or to
// root. Its mode has no bits for group and others, except that the group may read a file of root:
// Kubernetes mounts secrets like that.
//
// Errors: FailedPrecondition that names the file, its owner or mode, and the command that mends it.
absl::Status CheckPrivateFile(const std::string& path);

// Reads such a file. Errors: those of CheckPrivateFile; FailedPrecondition if it cannot be read or
// is longer than `most_bytes`.
absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t most_bytes);

// Creates such a file with `contents`. Errors: those of ErrnoStatus; AlreadyExists if something has
// the name.
absl::Status CreatePrivateFile(const std::string& path, std::string_view contents);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_PRIVATE_FILE_H_
