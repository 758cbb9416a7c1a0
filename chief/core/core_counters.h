#ifndef COHORT_CHIEF_CORE_CORE_COUNTERS_H_
#define COHORT_CHIEF_CORE_CORE_COUNTERS_H_

#include <cstddef>
#include <cstdint>

namespace cohort {

// What the core counts in one life of the chief. Each part owns one of these structs and is the
// only one that counts in it; CoreCounters joins them, and is copied whole.

// OpenClosures.
struct ClosureCounters {
  uint64_t finished = 0;
  uint64_t requeued = 0;
  uint64_t mixed = 0;       // closures whose tablets hold different attempts
  uint64_t duplicates = 0;  // push sections that a tablet had applied before
  uint64_t applied = 0;     // push sections
  uint64_t max_staleness = 0;
  uint64_t examples = 0;
};

// Dispatcher.
struct DispatchCounters {
  uint64_t dispatch_messages = 0;
  uint64_t late_results = 0;  // results that nobody wanted any more
};

// Settlement.
struct SettlementCounters {
  uint64_t settle_records = 0;
  uint64_t not_finite = 0;             // closures with a metric that is infinite or no number
  uint64_t first_not_finite_step = 0;  // valid if not_finite > 0
};

// Cut.
struct CutCounters {
  uint64_t cuts = 0;  // committed
  uint64_t cut_failures = 0;
};

// CoordinatorCore.
struct ClusterCounters {
  uint64_t workers_lost = 0;
  uint64_t ps_lost = 0;
  // Completed rollbacks to a checkpoint or to the initial state. The first assignment is none.
  uint64_t rollbacks = 0;
};

struct CoreCounters : ClosureCounters,
                      DispatchCounters,
                      SettlementCounters,
                      CutCounters,
                      ClusterCounters {};

// The figures of one worker: they show which worker delays the others.
struct WorkerFigures {
  uint64_t steps = 0;  // of the closures that it has finished in this life of the chief
  size_t in_flight = 0;
  double silent_seconds = 0;  // how long it has had work and reported no result
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_COUNTERS_H_
