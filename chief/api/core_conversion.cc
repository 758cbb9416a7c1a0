#include "chief/api/core_conversion.h"

#include "common/graph/program_proto.h"

namespace cohort {

ClosureSpec ClosureSpecOf(const ClosureRequest& request) {
  ClosureSpec spec{.program = request.step.program,
                   .resource = request.dataset.resource,
                   .training = request.training,
                   .steps = request.steps};
  for (const LeaseRange& range : request.leases) {
    v1::Lease& lease = spec.leases.emplace_back();
    lease.set_epoch(range.epoch);
    lease.set_begin(range.begin);
    lease.set_end(range.end);
  }
  for (const Tensor& argument : request.arguments) {
    TensorToProto(argument, &spec.arguments.emplace_back());
  }
  if (request.place.has_value()) {
    spec.by_job = true;
    spec.place = request.place->place;
    spec.places_end = request.place->places_end;
  }
  return spec;
}

std::vector<UnfinishedPlace> UnfinishedPlacesOf(const CoordinatorCore& core) {
  std::vector<UnfinishedPlace> places;
  for (const UnfinishedClosure& c : core.Unfinished()) places.push_back({c.place, c.steps});
  return places;
}

CoordinatorState StateOf(const CoordinatorCore& core) {
  CoordinatorState state;
  state.steps = core.settlement().steps();
  state.next_place = core.next_place();
  state.epoch = core.epoch();
  state.synchronous_steps = core.synchronous_steps();
  state.timeline = core.timeline();
  state.generation = core.generation();
  for (const auto& [name, metric] : core.settlement().metrics()) {
    state.metrics.push_back(metric);
  }
  state.queued = core.queued();
  state.in_flight = core.in_flight();
  state.ready_workers = core.ready_workers();
  state.workers = core.worker_figures();
  for (size_t i = 0; i < state.workers.size(); ++i) {
    state.workers[i].connected = core.membership().adopted(WorkerTask(static_cast<int>(i)));
  }
  for (const Task task : core.membership().tasks()) {
    auto& reports = task.role == Role::kPs ? state.server_reports : state.worker_reports;
    reports.push_back(core.membership().ReportOf(task, core.now_us()));
    if (task.role == Role::kPs) state.servers.push_back(reports.back().connected);
  }
  state.mode = core.steps().mode().settings();
  state.counters = core.counters();
  state.journal_refusals = core.journal_watch().refusals();
  state.journal_stalled_seconds = static_cast<double>(core.journal_watch().stalled_us()) / 1e6;
  return state;
}

}  // namespace cohort
