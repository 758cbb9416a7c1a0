#ifndef COHORT_TESTS_SIMULATOR_LEDGER_H_
#define COHORT_TESTS_SIMULATOR_LEDGER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/core_counters.h"
#include "chief/core/core_types.h"
#include "tests/cluster/apply_log.h"
#include "tests/simulator/network.h"
#include "tests/simulator/seeds.h"

namespace cohort::simulator {

// Counts of what happened in one run, or in many.
struct Statistics {
  uint64_t runs = 0;
  uint64_t events = 0;
  // Faults.
  uint64_t workers_killed = 0;
  uint64_t ps_killed = 0;
  uint64_t chiefs_killed = 0;
  uint64_t directories_emptied = 0;
  uint64_t frozen = 0;
  uint64_t chief_pauses = 0;  // among them, of the chief
  uint64_t wedged = 0;        // workers whose step never ended
  uint64_t crash_points = 0;
  uint64_t disk_full = 0;
  uint64_t write_errors = 0;  // EIO
  uint64_t read_errors = 0;
  uint64_t double_kills = 0;    // two tasks at the same moment
  uint64_t chiefs_gave_up = 0;  // ended by themselves with an error
  NetworkCounts network;
  // How the protocol reacted.
  uint64_t chief_lives = 0;
  uint64_t resumed = 0;  // chief incarnations that continued with the state of the servers
  uint64_t rollbacks = 0;
  uint64_t requeued = 0;
  uint64_t mixed = 0;
  uint64_t late_results = 0;
  uint64_t cuts = 0;
  uint64_t cuts_with_pending = 0;
  uint64_t validated = 0;  // manifests with the metric of a validation
  uint64_t cut_failures = 0;
  uint64_t segments = 0;  // journal segments beyond the first one of each chief
  uint64_t applied = 0;
  uint64_t duplicates = 0;
  uint64_t settled = 0;
  uint64_t fenced = 0;
  uint64_t recomputed = 0;
  uint64_t partial = 0;
  uint64_t timelines = 0;
  uint64_t slow_requests = 0;  // longer than the timeout, although their bytes moved
  uint64_t pulled_ahead = 0;   // steps whose pull began before an earlier step had run
  // Synchronous steps and bounded staleness.
  uint64_t sync_runs = 0;  // without backup work
  uint64_t drop_runs = 0;
  uint64_t speculative_runs = 0;
  uint64_t bounded_runs = 0;
  uint64_t steps_closed = 0;     // by a server
  uint64_t closes_repeated = 0;  // among them: because a restarted chief asked again
  uint64_t steps_abandoned = 0;
  uint64_t parked_pulls = 0;  // that waited for their step, or for memory
  uint64_t parked_pushes = 0;
  uint64_t refused_requests = 0;   // too much memory was held
  uint64_t waited_for_memory = 0;  // requests
  uint64_t slow_files = 0;         // shard files that took longer than the chief's deadline
  uint64_t promises = 0;           // that their answers come later
  uint64_t refused_pushes = 0;     // answers DROPPED
  uint64_t dropped_closures = 0;
  uint64_t lost_results = 0;
  uint64_t replicated_runs = 0;  // with copies of tablets
  uint64_t handed_over = 0;      // tablets, to other servers
  uint64_t replayed = 0;         // pushes, by copies
  uint64_t replaced = 0;         // servers whose tablets others took
  uint64_t workers_joined = 0;
  uint64_t workers_left = 0;  // their places were free again
  uint64_t servers_added = 0;
  uint64_t servers_forgotten = 0;
  uint64_t handed_to_added = 0;  // tablets
  uint64_t workers_fenced = 0;   // by a user
  uint64_t servers_fenced = 0;   // by a user; others took their tablets
  uint64_t copies = 0;           // speculative dispatches
  uint64_t evaluations = 0;      // beside the training
  uint64_t most_stale = 0;       // runs whose staleness reached the bound
  // Changes of the mode while the job runs.
  uint64_t changing_runs = 0;
  uint64_t changes_to_async = 0;
  uint64_t changes_to_sync = 0;  // with or without backup work
  uint64_t changes_to_bounded = 0;
  uint64_t changes_undone = 0;  // because a rollback came first

  Counts AllCounts();
  void Add(Statistics other) { AddCounts(other.AllCounts(), AllCounts()); }
  void Add(const ApplyReport& report);
  void Add(const CoreCounters& life);
  std::string Text() { return CountsText(AllCounts()); }
};

// The evidence by which a run is judged: every verdict of every server, every published watermark,
// and the violations that were found during the run.
struct Ledger {
  std::vector<ApplyEvent> events;
  std::vector<std::string> violations;
  Statistics statistics;

  template <typename... Args>
  void Violate(fmt::format_string<Args...> format, Args&&... args) {
    violations.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_LEDGER_H_
