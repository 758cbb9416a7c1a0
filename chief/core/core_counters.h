#ifndef COHORT_CHIEF_CORE_CORE_COUNTERS_H_
#define COHORT_CHIEF_CORE_CORE_COUNTERS_H_

#include <cstddef>
#include <cstdint>

namespace cohort {

// What the core counts. Everybody who shows a figure reads it from here. Every count starts at zero
// with each incarnation of the chief.
struct CoreCounters {
  uint64_t scheduled = 0;
  uint64_t dispatched = 0;  // closures; repeated ones count again
  uint64_t dispatch_messages = 0;
  uint64_t finished = 0;  // closures
  uint64_t steps = 0;     // training steps
  uint64_t requeued = 0;
  uint64_t workers_lost = 0;
  uint64_t ps_lost = 0;
  uint64_t late_results = 0;  // results that nobody waited for any more
  uint64_t mixed = 0;         // closures of which tablets applied different attempts
  uint64_t duplicates = 0;    // push sections that were applied before
  uint64_t applied = 0;       // push sections
  uint64_t max_staleness = 0;
  uint64_t examples = 0;
  uint64_t settle_records = 0;
  // Assignments of tablets that took the job back to a checkpoint or to its initial state. The
  // assignment with which a job begins is none.
  uint64_t rollbacks = 0;
};

// Figures of one worker: they show which worker delays the others.
struct WorkerFigures {
  uint64_t steps = 0;  // of its finished closures, in this incarnation of the chief
  size_t in_flight = 0;
  int64_t silent_us = 0;  // how long it has had work and sent no result
  double silent_seconds() const { return static_cast<double>(silent_us) / 1e6; }
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_COUNTERS_H_
