#ifndef COHORT_CHIEF_API_COORDINATOR_STATE_H_
#define COHORT_CHIEF_API_COORDINATOR_STATE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "chief/core/core_state.h"
#include "common/base/clock.h"

namespace cohort {

// The state of a job: a copy that belongs to its reader.
struct CoordinatorState : CoreState {
  double checkpoint_age_seconds = 0;  // since a commit or a restore; else since the chief started
  uint64_t ticks = 0;                 // turns of the thread that runs the protocol
  std::string waiting_for;            // as on_wait reports it; "" = nothing
  int64_t journal_fsyncs = 0;
  std::optional<TimePoint> first_closure;  // when the first closure finished
};

}  // namespace cohort

#endif  // COHORT_CHIEF_API_COORDINATOR_STATE_H_
