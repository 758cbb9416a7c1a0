#ifndef COHORT_COMMON_TESTING_STATUS_TEST_UTIL_H_
#define COHORT_COMMON_TESTING_STATUS_TEST_UTIL_H_

#include <string>

#include "absl/status/status.h"

namespace cohort::testing {

// The text of an error, for comparisons.
inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

}  // namespace cohort::testing

#endif  // COHORT_COMMON_TESTING_STATUS_TEST_UTIL_H_
