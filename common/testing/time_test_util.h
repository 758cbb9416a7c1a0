#ifndef COHORT_COMMON_TESTING_TIME_TEST_UTIL_H_
#define COHORT_COMMON_TESTING_TIME_TEST_UTIL_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace cohort::testing {

// A time limit, scaled by COHORT_TEST_TIME_SCALE for slow machines.
inline std::chrono::milliseconds Scaled(std::chrono::milliseconds limit) {
  const char* scale = std::getenv("COHORT_TEST_TIME_SCALE");
  const double factor = scale != nullptr ? std::max(1.0, std::atof(scale)) : 1.0;
  return std::chrono::milliseconds(
      static_cast<int64_t>(static_cast<double>(limit.count()) * factor));
}

}  // namespace cohort::testing

#endif  // COHORT_COMMON_TESTING_TIME_TEST_UTIL_H_
