#include "common/exchange/local_server.h"

#include <algorithm>
#include <utility>

#include "common/device/device.h"

namespace cohort {

void LocalServers::AddDevice(int worker, std::shared_ptr<Device> device) {
  MutexLock lock(&mu_);
  devices_[worker] = std::move(device);
}

absl::StatusOr<DeviceReader> LocalServers::PlaceVariables(int worker, uint64_t job) {
  MutexLock lock(&mu_);
  const auto own = devices_.find(worker);
  if (homes_ == 0 || devices_.size() != homes_ || own == devices_.end()) return nullptr;
  std::vector<std::shared_ptr<Device>> devices;
  for (const auto& [number, device] : devices_) {
    if (device->kind() != own->second->kind()) return nullptr;
    devices.push_back(device);
  }
  if (copies_.readers.empty() || job_ != job) {
    copies_ = {};
    DeviceCopies copies = DeviceCopies::On(devices);
    absl::Status moved;
    for (const auto& [incarnation, server] : servers_) {
      copies.home = static_cast<size_t>(server.index) % homes_;
      if (moved.ok()) moved = server.server->Reside(copies);
    }
    if (!moved.ok()) {
      for (const auto& [incarnation, server] : servers_) server.server->Reside({}).IgnoreError();
      return moved;
    }
    copies_ = std::move(copies);
    job_ = job;
  }
  return copies_.readers[static_cast<size_t>(std::distance(devices_.begin(), own))];
}

}  // namespace cohort
