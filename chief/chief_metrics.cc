#include "chief/chief_metrics.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "common/cluster/cluster_spec.h"

namespace cohort {
namespace {

using State = CoordinatorState;

using Add = std::function<void(const char* name, const char* help,
                               std::function<double(const State&)> read, MetricLabels labels)>;

double LossOf(const State& state) {
  for (const MetricState& metric : state.metrics) {
    if (metric.name == "loss") return metric.Value();
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void AddJobMetrics(const Add& metrics) {
  const auto add = [&](const char* name, const char* help, auto read) {
    metrics(name, help, std::move(read), {});
  };
  const auto number = [](auto field) {
    return [field](const State& s) { return static_cast<double>(s.*field); };
  };
  const auto counter = [](auto field) {
    return [field](const State& s) { return static_cast<double>(s.counters.*field); };
  };
  add("cohort_chief_steps", "Training steps of the whole job.", number(&State::steps));
  add("cohort_chief_loss", "Mean training loss of the current epoch; NaN before its first result.",
      LossOf);
  add("cohort_chief_queue_depth", "Closures that wait for a worker.", number(&State::queued));
  add("cohort_chief_in_flight", "Closures that workers are running.", number(&State::in_flight));
  add("cohort_chief_closures_total", "Closures finished.", counter(&CoreCounters::finished));
  add("cohort_chief_examples_total", "Examples of the closures finished.",
      counter(&CoreCounters::examples));
  add("cohort_chief_requeued_total", "Closures run again.", counter(&CoreCounters::requeued));
  add("cohort_chief_mixed_total", "Closures of which tablets applied different attempts.",
      counter(&CoreCounters::mixed));
  add("cohort_chief_duplicates_total", "Push sections refused as duplicates.",
      counter(&CoreCounters::duplicates));
  add("cohort_chief_not_finite_total", "Closures with an infinite or NaN loss.",
      counter(&CoreCounters::not_finite));
  add("cohort_chief_max_staleness", "Largest staleness of a push.",
      counter(&CoreCounters::max_staleness));
  add("cohort_chief_applied_total", "Push sections applied.", counter(&CoreCounters::applied));
  add("cohort_chief_staleness_total", "Staleness of all push sections applied.",
      counter(&CoreCounters::sum_staleness));
  add("cohort_chief_synchronous_steps", "Synchronous steps of the whole job.",
      number(&State::synchronous_steps));
  add("cohort_chief_dropped_total", "Closures without which a synchronous step was closed.",
      counter(&CoreCounters::dropped));
  add("cohort_chief_skipped_steps_total",
      "Synchronous steps that were skipped: a gradient was not finite.",
      counter(&CoreCounters::skipped));
  add("cohort_chief_not_finite_steps_total", "Steps in float16 whose gradient was not finite.",
      counter(&CoreCounters::not_finite_steps));
  add("cohort_chief_lost_results_total", "Results of closed synchronous steps that were lost.",
      counter(&CoreCounters::lost_results));
  add("cohort_chief_step_wait_seconds_total",
      "Waiting for the slowest half of the closures of synchronous steps.",
      [](const State& s) { return static_cast<double>(s.counters.waited_us) / 1e6; });
  add("cohort_chief_workers_ready", "Workers that take closures.", number(&State::ready_workers));
  add("cohort_chief_workers_lost_total", "Workers lost, by the whole job.",
      counter(&CoreCounters::workers_lost));
  add("cohort_chief_ps_lost_total", "Parameter servers lost, by the whole job.",
      counter(&CoreCounters::ps_lost));
  add("cohort_chief_servers_replaced_total",
      "Lost parameter servers whose tablets the servers of their copies took over.",
      counter(&CoreCounters::replaced));
  add("cohort_chief_tablets_without_copy",
      "With `replicas: 2`, tablets that have no copy now; not 0: the job is degraded.",
      number(&State::tablets_alone));
  add("cohort_chief_tablets_moving", "Tablets that are on their way to another server.",
      number(&State::tablets_moving));
  add("cohort_chief_tablets_moved_total",
      "Tablets that a server has handed over to another one, because a user asked for it.",
      number(&State::tablets_moved));
  add("cohort_chief_slow_servers", "Parameter servers that let most workers wait much longer.",
      number(&State::slow_servers));
  add("cohort_chief_slow_links", "Links from one worker to one server that are much slower.",
      number(&State::slow_links));
  add("cohort_chief_slow_workers", "Workers that wait much longer than others for all servers.",
      number(&State::slow_workers));
  add("cohort_chief_rollbacks_total",
      "Times that the job went back to its newest checkpoint after a lost parameter server.",
      counter(&CoreCounters::rollbacks));
  add("cohort_chief_checkpoints_total", "Checkpoints committed.", counter(&CoreCounters::cuts));
  add("cohort_chief_checkpoint_failures_total", "Checkpoints that failed.",
      counter(&CoreCounters::cut_failures));
  add("cohort_chief_checkpoint_age_seconds",
      "Time since this chief has committed or restored a checkpoint, or started.",
      number(&State::checkpoint_age_seconds));
  add("cohort_chief_checkpoint_hold_seconds_total",
      "How long checkpoints have kept training closures from workers.",
      [](const State& s) { return static_cast<double>(s.counters.held_us) / 1e6; });
  add("cohort_chief_journal_refusals_total",
      "Logged errors of the journal's disk; the chief waited until each was over.",
      number(&State::journal_refusals));
  add("cohort_chief_journal_stalled_seconds",
      "How long a record has been waiting to be durable; training stops when it must wait for one.",
      number(&State::journal_stalled_seconds));
  add("cohort_chief_journal_fsyncs_total", "Fsyncs of the journal.",
      number(&State::journal_fsyncs));
  add("cohort_chief_timeline", "The job's timeline.", number(&State::timeline));
  add("cohort_chief_generation", "This chief's generation.", number(&State::generation));
}

void AddWorkerMetrics(const Add& metrics, int worker) {
  const auto add = [&](const char* name, const char* help, auto field) {
    const auto read = [i = static_cast<size_t>(worker), field](const State& s) {
      return i < s.workers.size() ? static_cast<double>(s.workers[i].*field) : 0.0;
    };
    metrics(name, help, read, {{"worker", std::to_string(worker)}});
  };
  add("cohort_chief_worker_steps_total", "Steps of the closures that a worker has finished.",
      &WorkerFigures::steps);
  add("cohort_chief_worker_in_flight", "Closures that a worker is running.",
      &WorkerFigures::in_flight);
  add("cohort_chief_worker_silent_seconds",
      "How long a worker has had work and sent no result; it grows for a straggler.",
      &WorkerFigures::silent_seconds);
}

// `joined`: nobody may have the place.
void AddTaskMetric(const Add& add, Task task, bool joined,
                   std::vector<TaskReport> State::*reports) {
  const auto read = [i = static_cast<size_t>(task.index), joined, reports](const State& s) {
    const bool known = i < (s.*reports).size();
    if (joined && (!known || (s.*reports)[i].address.empty())) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return known && (s.*reports)[i].connected ? 1.0 : 0.0;
  };
  add("cohort_chief_task_connected",
      "1 if the chief has the task, else 0; NaN: the task had joined, and has left.", read,
      {{"task", task.ToString()}});
}

// A series for each link that some worker has reported.
void AddLinkMetrics(const Add& add, int worker, int server) {
  for (const bool tail : {false, true}) {
    const auto read = [=](const State& s) {
      const auto link = std::ranges::lower_bound(
          s.links, std::pair(worker, server), {},
          [](const LinkFigure& figure) { return std::pair(figure.worker, figure.server); });
      if (link == s.links.end() || link->worker != worker || link->server != server) {
        return std::numeric_limits<double>::quiet_NaN();
      }
      return tail ? link->p99_seconds : link->p50_seconds;
    };
    add("cohort_chief_link_wait_seconds",
        "How long a server lets a worker wait for the first byte of an answer; NaN: no requests.",
        read,
        {{"worker", std::to_string(worker)},
         {"ps", std::to_string(server)},
         {"percentile", tail ? "99" : "50"}});
  }
}

}  // namespace

void AddChiefMetrics(MetricsRegistry* registry, int workers, int servers,
                     std::function<std::optional<CoordinatorState>()> state) {
  const auto copy = std::make_shared<std::optional<State>>();
  registry->AddPreparation([copy, state = std::move(state)] { *copy = state(); });
  const Add add = [registry, copy](const char* name, const char* help, auto read,
                                   const MetricLabels& labels) {
    const auto value = [copy, read] { return copy->has_value() ? read(**copy) : 0.0; };
    registry->AddCallback(name, help, value, labels);
  };
  AddJobMetrics(add);
  const auto add_worker = [add](int i, bool joined) {
    AddWorkerMetrics(add, i);
    AddTaskMetric(add, {Role::kWorker, i}, joined, &State::worker_reports);
  };
  const auto add_server = [add](int i, bool joined) {
    AddTaskMetric(add, {Role::kPs, i}, joined, &State::server_reports);
  };
  for (int i = 0; i < workers; ++i) add_worker(i, /*joined=*/false);
  for (int i = 0; i < servers; ++i) add_server(i, /*joined=*/false);
  // Tasks that have joined. A place keeps its series, and there are not many places.
  registry->AddPreparation([=]() mutable {
    if (!copy->has_value()) return;
    const auto end = [](const auto& reports) { return static_cast<int>(reports.size()); };
    for (; workers < end((*copy)->worker_reports); ++workers) add_worker(workers, /*joined=*/true);
    for (; servers < end((*copy)->server_reports); ++servers) add_server(servers, /*joined=*/true);
  });
  registry->AddPreparation([copy, add, known = std::set<std::pair<int, int>>()]() mutable {
    if (!copy->has_value()) return;
    for (const LinkFigure& link : (*copy)->links) {
      if (known.emplace(link.worker, link.server).second) {
        AddLinkMetrics(add, link.worker, link.server);
      }
    }
  });
}

void AddStreamMetrics(MetricsRegistry* registry,
                      std::function<std::optional<StreamFigures>()> figures) {
  auto copy = std::make_shared<StreamFigures>();
  registry->AddPreparation(
      [copy, figures = std::move(figures)] { *copy = figures().value_or(StreamFigures()); });
  const auto add = [&](const char* name, const char* help, auto field) {
    registry->AddCallback(name, help,
                          [copy, field] { return static_cast<double>(copy.get()->*field); }, {});
  };
  add("cohort_chief_stream_files_waiting", "Complete files of which no record is read.",
      &StreamFigures::files_waiting);
  add("cohort_chief_stream_records_waiting", "Records of counted files that are not read.",
      &StreamFigures::records_waiting);
  add("cohort_chief_stream_bytes_waiting", "Bytes of complete files that are not read.",
      &StreamFigures::bytes_waiting);
  add("cohort_chief_stream_oldest_waiting_seconds", "Age of the oldest waiting file.",
      &StreamFigures::oldest_waiting_seconds);
}

}  // namespace cohort
