#ifndef COHORT_COMMON_MODEL_TEXT_FILE_H_
#define COHORT_COMMON_MODEL_TEXT_FILE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace cohort {

// The most bytes of a job file, and of a file that it names as its model.
inline constexpr size_t kMaxTextBytes = size_t{64} << 20;

// Reads a file. `what` is its purpose, for the errors: "a job file". Errors: NotFound for a file
// that cannot be read; InvalidArgument for one that is larger than kMaxTextBytes.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, std::string_view what);

}  // namespace cohort

#endif  // COHORT_COMMON_MODEL_TEXT_FILE_H_
