#include "common/exchange/local_server.h"

#include <algorithm>
#include <utility>

#include "common/device/device.h"

namespace cohort {

void LocalServers::AddDevice(int worker, std::shared_ptr<Device> device) {
  MutexLock lock(&mu_);
  devices_[worker] = std::move(device);
}

absl::StatusOr<DevicePlaces> LocalServers::PlaceVariables(int worker, uint64_t job) {
  MutexLock lock(&mu_);
  const auto own = devices_.find(worker);
  if (homes_ == 0 || devices_.size() != homes_ || own == devices_.end()) return DevicePlaces();
  std::vector<std::shared_ptr<Device>> devices;
  for (const auto& [number, device] : devices_) {
    if (device->kind() != own->second->kind()) return DevicePlaces();
    devices.push_back(device);
  }
  if (places_.readers.empty() || job_ != job) {
    places_ = {};
    DevicePlaces places = DevicePlaces::On(devices);
    absl::Status moved;
    for (const auto& [incarnation, server] : servers_) {
      places.home = static_cast<size_t>(server.index) % homes_;
      if (moved.ok()) moved = server.server->Reside(places);
    }
    if (!moved.ok()) {
      for (const auto& [incarnation, server] : servers_) server.server->Reside({}).IgnoreError();
      return moved;
    }
    places_ = std::move(places);
    job_ = job;
  }
  DevicePlaces places = places_;
  places.home = static_cast<size_t>(std::distance(devices_.begin(), own));
  return places;
}

}  // namespace cohort
