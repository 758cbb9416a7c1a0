#include "tests/simulator/ledger.h"

namespace cohort::simulator {
namespace {

// Visits every figure with its name, so that Add and Text cannot miss one.
template <typename Visit>
void ForEach(Statistics& s, const Visit& visit) {
  visit("runs", s.runs);
  visit("events", s.events);
  visit("workers killed", s.workers_killed);
  visit("servers killed", s.ps_killed);
  visit("chiefs killed", s.chiefs_killed);
  visit("directories emptied", s.directories_emptied);
  visit("two killed at once", s.double_kills);
  visit("processes frozen", s.frozen);
  visit("workers wedged", s.wedged);
  visit("crash points hit", s.crash_points);
  visit("disk full", s.disk_full);
  visit("chiefs gave up", s.chiefs_gave_up);
  visit("messages", s.network.messages);
  visit("lost control messages", s.network.lost_control);
  visit("lost requests", s.network.lost_requests);
  visit("lost responses", s.network.lost_responses);
  visit("streams broken", s.network.breaks);
  visit("network cuts", s.network.cuts);
  visit("chief lives", s.chief_lives);
  visit("resumed", s.resumed);
  visit("rollbacks", s.rollbacks);
  visit("closures requeued", s.requeued);
  visit("mixed closures", s.mixed);
  visit("late results", s.late_results);
  visit("cuts", s.cuts);
  visit("cuts with pending closures", s.cuts_with_pending);
  visit("journal segments", s.segments);
  visit("cuts failed", s.cut_failures);
  visit("cuts validated", s.validated);
  visit("pushes applied", s.applied);
  visit("duplicates refused", s.duplicates);
  visit("settled refused", s.settled);
  visit("pushes fenced", s.fenced);
  visit("closures recomputed", s.recomputed);
  visit("partial pushes", s.partial);
  visit("timelines", s.timelines);
  visit("steps pulled ahead", s.pulled_ahead);
  visit("runs with sync", s.sync_runs);
  visit("runs with drop", s.drop_runs);
  visit("runs with speculative", s.speculative_runs);
  visit("runs with bounded staleness", s.bounded_runs);
  visit("steps closed by servers", s.steps_closed);
  visit("closes repeated", s.closes_repeated);
  visit("steps abandoned", s.steps_abandoned);
  visit("parked pulls", s.parked_pulls);
  visit("pushes of steps that have gone", s.refused_pushes);
  visit("closures dropped", s.dropped_closures);
  visit("results lost", s.lost_results);
  visit("copies dispatched", s.copies);
  visit("evaluations beside training", s.evaluations);
  visit("runs at the bound of staleness", s.most_stale);
  visit("runs that change the mode", s.changing_runs);
  visit("changes to async", s.changes_to_async);
  visit("changes to sync", s.changes_to_sync);
  visit("changes to bounded staleness", s.changes_to_bounded);
  visit("changes undone by rollbacks", s.changes_undone);
}

}  // namespace

void Statistics::Add(const Statistics& other) {
  std::vector<uint64_t> values;
  Statistics copy = other;
  ForEach(copy, [&](const char*, uint64_t& value) { values.push_back(value); });
  size_t i = 0;
  ForEach(*this, [&](const char*, uint64_t& value) { value += values[i++]; });
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
  requeued += life.requeued;
  mixed += life.mixed;
  late_results += life.late_results;
  dropped_closures += life.dropped;
  lost_results += life.lost_results;
}

std::string Statistics::Text() const {
  std::string text;
  Statistics copy = *this;
  ForEach(copy, [&](const char* name, uint64_t& value) {
    text += fmt::format("{:>12} {}\n", value, name);
  });
  return text;
}

}  // namespace cohort::simulator
