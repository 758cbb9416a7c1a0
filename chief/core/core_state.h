#ifndef COHORT_CHIEF_CORE_CORE_STATE_H_
#define COHORT_CHIEF_CORE_CORE_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "chief/core/core_counters.h"
#include "chief/core/job_settings.h"
#include "common/metrics/metric_state.h"

namespace cohort {

// What the core knows of a job: a copy that belongs to its reader.
struct CoreState {
  // Counted over the whole job, without what was rolled back.
  uint64_t steps = 0;  // training steps finished
  uint64_t next_place = 0;
  uint64_t epoch = 0;              // finished epochs
  uint64_t synchronous_steps = 0;  // closed ones
  // The optimizers' next one: mode sync, the open step's; else about that of the last result.
  uint64_t iteration = 0;
  // Rates that were set while the job runs: of that iteration, and of the one before. nullopt: the
  // optimizer has its own.
  std::optional<double> learning_rate;
  std::optional<double> last_learning_rate;
  uint64_t timeline = 0;
  uint64_t generation = 0;
  std::vector<MetricState> metrics;  // folded over the current epoch

  // The current values.
  uint64_t queued = 0;
  uint64_t in_flight = 0;
  int ready_workers = 0;
  std::vector<WorkerFigures> workers;      // by index
  std::vector<bool> servers;               // by index: true if it is connected
  std::vector<TaskReport> worker_reports;  // by index
  std::vector<TaskReport> server_reports;
  ModeSettings mode;
  size_t tablets_alone = 0;    // that have no copy, and should
  size_t tablets_moving = 0;   // to another server
  uint64_t tablets_moved = 0;  // since this chief started
  std::vector<ServerTablets> server_tablets;

  std::vector<LinkFigure> links;  // by worker and server
  std::vector<std::string> slow;  // what is slow now, as sentences (LinkWatch)
  size_t slow_servers = 0;
  size_t slow_links = 0;
  size_t slow_workers = 0;

  // Counted since this chief started, except lost tasks, rollbacks and restarts: those cover the
  // whole job.
  CoreCounters counters;
  uint64_t journal_refusals = 0;       // only logged ones, for example of a full disk
  double journal_stalled_seconds = 0;  // how long a record has waited to become durable
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_CORE_STATE_H_
