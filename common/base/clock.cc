#include "common/base/clock.h"

namespace cohort {

int64_t RealClock::UnixMicros() const {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace cohort
