#ifndef COHORT_COMMON_CLUSTER_RUN_SECRET_H_
#define COHORT_COMMON_CLUSTER_RUN_SECRET_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace cohort {

// The secret of a run: a file that all its tasks can read and nobody else (--secret_file). Tasks
// send a token that is made from it, with each stream that they open.
//
// The token: the SHA-256 of the file without white space at its end, as 64 hexadecimal digits. So
// it fits into metadata, whatever bytes the file has.

// Errors: FailedPrecondition (exit code 78) that names the file: other users can read it, or it has
// less than 16 bytes.
absl::StatusOr<std::string> ReadSecretToken(const std::string& path);

// Takes the same time wherever the two differ.
bool SameToken(std::string_view a, std::string_view b);

// Makes a file with a new random secret, in place of one that is there. Errors: exit code 73.
absl::Status WriteNewSecret(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_RUN_SECRET_H_
