#ifndef COHORT_CHIEF_CORE_CORE_COUNTERS_H_
#define COHORT_CHIEF_CORE_CORE_COUNTERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace cohort {

namespace v1 {
class TaskFigures;
}

// The core counts these during one incarnation of the chief, except ClusterCounters. Each part owns
// one of these structs and is its only writer. CoreCounters joins them, and is copied as a whole.

// The staleness of the push sections that tablets have applied since the epoch began, or since this
// chief started: how many updates a tablet applied between a closure's pull and its push.
struct EpochStaleness {
  uint64_t sections = 0;
  uint64_t sum = 0;
  uint64_t max = 0;

  double mean() const {
    return sections == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(sections);
  }
};

// Owned by OpenClosures.
struct ClosureCounters {
  uint64_t finished = 0;
  uint64_t requeued = 0;
  uint64_t mixed = 0;       // closures whose tablets hold different attempts
  uint64_t duplicates = 0;  // push sections that a tablet had already applied
  uint64_t applied = 0;     // push sections that a tablet applied
  uint64_t max_staleness = 0;
  uint64_t sum_staleness = 0;  // the sum over the sections that were applied
  EpochStaleness epoch_staleness;
  uint64_t examples = 0;
  uint64_t not_finite_steps = 0;  // float16: steps of closures whose gradient was not finite
};

// Owned by Dispatcher.
struct DispatchCounters {
  uint64_t dispatch_messages = 0;
  uint64_t late_results = 0;  // results that no closure needed anymore
};

// Owned by Steps.
struct StepCounters {
  uint64_t steps_closed = 0;  // synchronous steps
  uint64_t dropped = 0;       // closures without which a step was closed
  uint64_t lost_results = 0;  // closures of closed steps whose results died with worker and chief
  uint64_t skipped = 0;       // steps with a gradient that was not finite, in float16
  int64_t waited_us = 0;      // for the last member of each step, after half of them were heard
};

// Owned by Settlement.
struct SettlementCounters {
  uint64_t settle_records = 0;
  uint64_t not_finite = 0;             // closures with an infinite or NaN loss
  uint64_t first_not_finite_step = 0;  // valid if not_finite > 0
};

// Owned by Cut.
struct CutCounters {
  uint64_t cuts = 0;  // committed
  uint64_t cut_failures = 0;
  int64_t held_us = 0;  // training closures were held back for cuts
};

// Owned by CoordinatorCore. These cover the whole life of the job, because the journal keeps them.
struct ClusterCounters {
  uint64_t workers_lost = 0;  // without those that ended in order
  uint64_t ps_lost = 0;
  uint64_t replaced = 0;        // servers of this chief whose tablets others took: no rollback
  uint64_t servers_fenced = 0;  // by a user, since this chief started
  // Completed rollbacks to a checkpoint or to the initial state, without the first assignment.
  uint64_t rollbacks = 0;
  uint64_t chief_restarts = 0;
};

struct CoreCounters : ClosureCounters,
                      DispatchCounters,
                      StepCounters,
                      SettlementCounters,
                      CutCounters,
                      ClusterCounters {};

// The figures of one worker. They show which worker delays the others.
struct WorkerFigures {
  // These count its finished closures, in this incarnation of the chief.
  uint64_t steps = 0;
  uint64_t closures = 0;
  uint64_t applied = 0;        // push sections
  uint64_t sum_staleness = 0;  // their staleness

  size_t in_flight = 0;
  double silent_seconds = 0;  // time with work and without a result
  bool connected = true;      // false: it was lost, or has not arrived yet
  bool fenced = false;        // a user has said that it gets no work
};

// What a server has now (chief/core/homes.h).
struct ServerTablets {
  size_t tablets = 0;    // that it answers for
  size_t copies = 0;     // that it keeps for other servers
  bool drained = false;  // it should have none
};

// How long a server has let a worker wait, from a request to the first byte of its answer, without
// the time in which the worker did something else. Since the worker's Pong before the last one that
// had requests.
struct LinkFigure {
  int worker = 0;
  int server = 0;
  uint64_t requests = 0;
  double p50_seconds = 0;
  double p99_seconds = 0;
  bool slow = false;  // the link, or its server (chief/core/link_watch.h)
};

// What a task has reported with its last Pong, and when the chief last heard it.
struct TaskReport {
  std::string address;
  bool connected = false;
  double heard_seconds = 0;   // time since its last message; valid if it is connected
  uint64_t memory_bytes = 0;  // memory of its process
  // What it used when its connection was lost the last time; 0: it had not reported any.
  uint64_t lost_memory_bytes = 0;
  uint64_t sent_bytes = 0;  // payload, from the start of its process
  uint64_t received_bytes = 0;
  uint64_t pushes = 0;                             // servers: push sections applied or staged
  std::shared_ptr<const v1::TaskFigures> figures;  // all of its last Pong; null: none has come
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_COUNTERS_H_
