#include "chief/core/core_view.h"

#include <algorithm>

#include "common/optimizers/learning_rates.h"

namespace cohort {

CoreState CoreView::State() const {
  CoreState state;
  state.steps = settlement.steps();
  state.next_place = scheduler.next_place();
  state.epoch = settlement.epoch();
  state.synchronous_steps = steps.closed();
  state.iteration =
      steps.mode().sync()
          ? steps.open().begin().iteration()
          : static_cast<uint64_t>(std::max<int64_t>(
                steps.mode().iteration_offset() + static_cast<int64_t>(settlement.steps()), 0));
  const v1::LearningRates& rates = steps.rates().rates();
  state.learning_rate = RateAt(rates, state.iteration);
  state.last_learning_rate = RateAt(rates, std::max<uint64_t>(state.iteration, 1) - 1);
  state.timeline = timeline();
  state.generation = outbox.generation();
  for (const auto& [name, metric] : settlement.metrics()) {
    state.metrics.push_back(metric);
  }
  state.queued = closures.queue().queued();
  state.in_flight = closures.queue().in_flight();
  state.ready_workers = ready_workers();
  state.workers = dispatcher.worker_figures();
  state.workers.resize(static_cast<size_t>(membership.workers()));
  for (size_t i = 0; i < state.workers.size(); ++i) {
    state.workers[i].connected = membership.adopted(WorkerTask(static_cast<int>(i)));
  }
  for (int i = 0; i < membership.workers(); ++i) {
    state.worker_reports.push_back(membership.ReportOf(WorkerTask(i), context.now_us));
  }
  for (int i = 0; i < membership.ps(); ++i) {
    state.server_reports.push_back(membership.ReportOf(PsTask(i), context.now_us));
    state.servers.push_back(state.server_reports.back().connected);
  }
  state.mode = steps.mode().settings();
  state.tablets_alone = homes.alone();
  state.tablets_moving = homes.moving();
  state.tablets_moved = homes.handed_over();
  state.server_tablets = homes.figures();
  state.links = links.figures();
  state.slow = links.slow();
  state.slow_servers = links.slow_servers();
  state.slow_links = links.slow_links();
  state.slow_workers = links.slow_workers();
  state.counters = counters();
  state.journal_refusals = journal.refusals();
  state.journal_stalled_seconds = static_cast<double>(journal.stalled_us()) / 1e6;
  return state;
}

CoreCounters CoreView::counters() const {
  return {closures.counters(),   dispatcher.counters(), steps.counters(),
          settlement.counters(), cut.counters(),        cluster};
}

std::string CoreView::WaitingFor() const {
  if (journal.refused()) return journal.Waiting();
  const CorePhase p = phase();
  if (p == CorePhase::kTaking || p == CorePhase::kReading || p == CorePhase::kStarting) {
    return "waiting for the journal";
  }
  if (p == CorePhase::kProbing || p == CorePhase::kAdopting ||
      (served() ? !homes.there() : !all_ps_there())) {
    const std::string missing = membership.Missing(context.now_us);
    return "waiting for " + (missing.empty() ? "the cluster" : missing);
  }
  if (served() && !homes.steady()) return homes.Waiting();
  if (rollback.active()) return "waiting for the parameter servers to load their tablets";
  const bool no_worker = closures.queue().size() > 0 && ready_workers() == 0;
  std::string workers = no_worker ? membership.Missing(context.now_us) : "";
  if (const std::string late = dispatcher.pace().Waiting(no_worker); !late.empty()) {
    workers += (workers.empty() ? "" : "; ") + late;
  }
  if (no_worker) return "waiting for a worker" + (workers.empty() ? "" : ": " + workers);
  if (!workers.empty()) return "waiting for " + workers;
  if (std::string text = closures.Waiting(); !text.empty()) return text;
  if (std::string text = steps.Waiting(); !text.empty()) return text;
  if (cut.holds_dispatch()) {
    if (std::string text = WaitingForCut(); !text.empty()) return text;
  }
  return journal.Waiting();
}

}  // namespace cohort
