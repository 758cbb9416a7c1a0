#include "tests/simulator/ledger.h"

namespace cohort::simulator {

Counts Statistics::AllCounts() {
  return {
      {"runs", &runs},
      {"events", &events},
      {"workers killed", &workers_killed},
      {"servers killed", &ps_killed},
      {"chiefs killed", &chiefs_killed},
      {"directories emptied", &directories_emptied},
      {"two killed at once", &double_kills},
      {"processes frozen", &frozen},
      {"workers wedged", &wedged},
      {"crash points hit", &crash_points},
      {"disk full", &disk_full},
      {"chiefs stopped", &chief_pauses},
      {"errors of writes", &write_errors},
      {"errors of reads", &read_errors},
      {"slow files", &slow_files},
      {"chiefs gave up", &chiefs_gave_up},
      {"messages", &network.messages},
      {"lost control messages", &network.lost_control},
      {"lost requests", &network.lost_requests},
      {"lost responses", &network.lost_responses},
      {"streams broken", &network.breaks},
      {"network cuts", &network.cuts},
      {"cuts of one way", &network.one_way_cuts},
      {"messages delivered twice", &network.doubled},
      {"slow requests", &slow_requests},
      {"chief lives", &chief_lives},
      {"resumed", &resumed},
      {"rollbacks", &rollbacks},
      {"closures requeued", &requeued},
      {"mixed closures", &mixed},
      {"late results", &late_results},
      {"cuts", &cuts},
      {"cuts with pending closures", &cuts_with_pending},
      {"journal segments", &segments},
      {"cuts failed", &cut_failures},
      {"cuts validated", &validated},
      {"pushes applied", &applied},
      {"duplicates refused", &duplicates},
      {"settled refused", &settled},
      {"pushes fenced", &fenced},
      {"closures recomputed", &recomputed},
      {"partial pushes", &partial},
      {"timelines", &timelines},
      {"steps pulled ahead", &pulled_ahead},
      {"runs with sync", &sync_runs},
      {"runs with drop", &drop_runs},
      {"runs with speculative", &speculative_runs},
      {"runs with bounded staleness", &bounded_runs},
      {"steps closed by servers", &steps_closed},
      {"closes repeated", &closes_repeated},
      {"steps abandoned", &steps_abandoned},
      {"parked pulls", &parked_pulls},
      {"parked pushes", &parked_pushes},
      {"requests refused for memory", &refused_requests},
      {"requests that waited for memory", &waited_for_memory},
      {"promises of parked pulls", &promises},
      {"pushes of steps that have gone", &refused_pushes},
      {"closures dropped", &dropped_closures},
      {"results lost", &lost_results},
      {"runs with copies of tablets", &replicated_runs},
      {"tablets handed over", &handed_over},
      {"pushes replayed by copies", &replayed},
      {"servers replaced", &replaced},
      {"servers fenced", &servers_fenced},
      {"workers joined", &workers_joined},
      {"joined workers left", &workers_left},
      {"servers added", &servers_added},
      {"added servers forgotten", &servers_forgotten},
      {"tablets handed over to added servers", &handed_to_added},
      {"workers fenced", &workers_fenced},
      {"copies dispatched", &copies},
      {"evaluations beside training", &evaluations},
      {"runs at the bound of staleness", &most_stale},
      {"runs that change the mode", &changing_runs},
      {"changes to async", &changes_to_async},
      {"changes to sync", &changes_to_sync},
      {"changes to bounded staleness", &changes_to_bounded},
      {"changes undone by rollbacks", &changes_undone},
  };
}

void Statistics::Add(const ApplyReport& report) {
  applied += report.applied;
  duplicates += report.duplicates_refused;
  settled += report.settled_refused;
  fenced += report.fenced;
  recomputed += report.recomputed_closures;
  partial += report.partial_pushes;
  timelines += report.timelines;
}

void Statistics::Add(const CoreCounters& life) {
  rollbacks += life.rollbacks;
  replaced += life.replaced;
  servers_fenced += life.servers_fenced;
  requeued += life.requeued;
  mixed += life.mixed;
  late_results += life.late_results;
  dropped_closures += life.dropped;
  lost_results += life.lost_results;
}

}  // namespace cohort::simulator
