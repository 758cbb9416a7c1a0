#ifndef COHORT_CHIEF_CORE_CORE_CONTEXT_H_
#define COHORT_CHIEF_CORE_CORE_CONTEXT_H_

#include <cstdint>
#include <utility>

#include "chief/core/core_types.h"

namespace cohort {

// The phases of a chief; coordinator_core.h draws them.
enum class CorePhase : uint8_t {
  kProbing,
  kTaking,
  kAdopting,
  kReading,
  kStarting,
  kReady,
  kStopped,
  kFailed
};

// The facts that most parts of the core need. CoordinatorCore owns them and is the only writer. The
// parts hold a const pointer.
struct CoreContext {
  explicit CoreContext(CoreOptions o) : options(std::move(o)) {}

  CoreOptions options;  // after the start only the addresses of places change
  CorePhase phase = CorePhase::kProbing;
  int64_t now_us = 0;
  uint64_t timeline = 0;  // 0: no tablet was ever assigned
  uint64_t era = 0;       // EraOf(generation, timeline)
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_CONTEXT_H_
