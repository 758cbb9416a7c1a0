#include "common/model/device_check.h"

#include <fmt/ranges.h>

#include "common/graph/device_name.h"
#include "common/model/strategies.h"
#include "proto/job.pb.h"

namespace cohort {
namespace {

absl::Status CheckWorker(const std::string& device, const std::string& where,
                         const v1::StrategySpec& strategy, const std::set<int>& workers) {
  const auto parsed = ParseDeviceName(device);
  if (!parsed.ok() || parsed->worker == DeviceName::kOwnWorker) {
    return absl::OkStatus();  // BuildModel refuses what is no device
  }
  if (strategy.elastic()) {
    return InvalidArgument(
        "{}: the device \"{}\" belongs to worker:{}, and an elastic job may continue without it; "
        "name a device without a worker, or leave out `strategy.elastic`",
        where, device, parsed->worker);
  }
  // A step that was interrupted on the other worker runs again, but its sums may have begun.
  if (strategy.communication() == kRingCommunication) {
    return InvalidArgument(
        "{}: the device \"{}\" belongs to worker:{}, and replicas of a ring run whole steps; name "
        "a "
        "device without a worker, or write `strategy.communication: direct`",
        where, device, parsed->worker);
  }
  if (workers.contains(parsed->worker)) return absl::OkStatus();
  return InvalidArgument(
      "{}: the device \"{}\" belongs to worker:{}, which the cluster does not have; name a device "
      "of worker:{}, or leave out the worker to use one of the worker that runs the step",
      where, device, parsed->worker, fmt::join(workers, ", worker:"));
}

}  // namespace

absl::Status CheckDeviceWorkers(const v1::JobSpec& job, const JobLines& lines,
                                const std::set<int>& workers) {
  const v1::ModelSpec& model = job.model();
  for (int i = 0; i < model.layers_size(); ++i) {
    if (model.layers(i).device().empty()) continue;
    const std::string where = lines.Where(fmt::format("model.layers[{}].device", i));
    COHORT_RETURN_IF_ERROR(CheckWorker(model.layers(i).device(), where, job.strategy(), workers));
  }
  for (int i = 0; i < model.devices_size(); ++i) {
    const std::string where = lines.Where(fmt::format("model.devices[{}]", i));
    COHORT_RETURN_IF_ERROR(CheckWorker(model.devices(i).device(), where, job.strategy(), workers));
  }
  return absl::OkStatus();
}

}  // namespace cohort
