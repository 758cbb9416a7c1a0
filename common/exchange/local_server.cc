#include "common/exchange/local_server.h"

#include <utility>

namespace cohort {

void LocalServers::AddDevice(int worker, std::shared_ptr<Device> device) {
  MutexLock lock(&mu_);
  devices_[worker] = std::move(device);
}

absl::StatusOr<std::shared_ptr<ResidentVariables>> LocalServers::Resident(int worker,
                                                                          uint64_t job) {
  MutexLock lock(&mu_);
  if (homes_ == 0 || devices_.size() != homes_) return nullptr;
  const auto own = devices_.find(worker);
  if (own == devices_.end()) return nullptr;
  const auto place = static_cast<size_t>(std::distance(devices_.begin(), own));
  if (!resident_.empty() && job_ == job) return resident_[place];
  DevicePlaces places;
  for (const auto& [number, device] : devices_) {
    if (device->kind() != own->second->kind()) return nullptr;
    places.readers.push_back(std::make_shared<ResidentVariables>(device));
  }
  resident_.clear();
  absl::Status moved;
  for (const auto& [incarnation, server] : servers_) {
    places.home = static_cast<size_t>(server.index) % homes_;
    if (moved.ok()) moved = server.server->Reside(places);
  }
  if (!moved.ok()) {
    for (const auto& [incarnation, server] : servers_) server.server->Reside({}).IgnoreError();
    return moved;
  }
  resident_ = std::move(places.readers);
  job_ = job;
  return resident_[place];
}

}  // namespace cohort
