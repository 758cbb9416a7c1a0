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
  for (const UnfinishedClosure& c : core.view().Unfinished()) places.push_back({c.place, c.steps});
  return places;
}

}  // namespace cohort
