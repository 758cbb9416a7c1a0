#ifndef COHORT_CHIEF_CORE_STALENESS_WINDOW_H_
#define COHORT_CHIEF_CORE_STALENESS_WINDOW_H_

#include <cstdint>
#include <set>

#include "chief/core/core_types.h"

namespace cohort {

// Bounded staleness: a closure waits until all closures of the steps before the last `staleness`
// ones have ended. A step is closures_per_step places here.
class StalenessWindow {
 public:
  explicit StalenessWindow(const ProtocolFaults& faults)
      : more_(faults.allows_more_staleness ? 1 : 0) {}

  bool Admits(uint64_t place, const ModeSettings& mode) const {
    const uint64_t oldest = running_.empty() ? place : *running_.begin();
    const uint64_t step = mode.places_per_step();
    return place / step <= oldest / step + mode.staleness + more_;
  }
  // The closure of this place was dispatched; it has ended.
  void Enter(uint64_t place) { running_.insert(place); }
  void Leave(uint64_t place) { running_.erase(place); }
  // No closure runs anymore that counts.
  void Clear() { running_.clear(); }

 private:
  const uint64_t more_;
  std::set<uint64_t> running_;  // places that were dispatched and have not ended
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_STALENESS_WINDOW_H_
