#include "ps_server/pins.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace cohort {

bool Pins::Client::HasEnded() const {
  pollfd wait = {.fd = process_.get(), .events = POLLIN, .revents = 0};
  return poll(&wait, 1, /*timeout=*/0) > 0;
}

// What ends is destroyed behind the lock, because that may free much memory.
void Pins::Client::Release(uint64_t sequence, std::span<const uint64_t> reading) {
  std::vector<OfRequest> ended;
  MutexLock lock(&pins_->mu_);
  const auto first = std::partition(requests_.begin(), requests_.end(), [&](const auto& request) {
    return request.sequence >= sequence ||
           std::ranges::find(reading, request.sequence) != reading.end();
  });
  std::move(first, requests_.end(), std::back_inserter(ended));
  requests_.erase(first, requests_.end());
}

bool Pins::Client::Pin(uint64_t sequence, std::vector<BufferRef> blocks) {
  MutexLock lock(&pins_->mu_);
  if (pins_->SupersededBytes() > pins_->most_superseded_) {
    pins_->DropEnded();
    if (pins_->SupersededBytes() > pins_->most_superseded_) return false;
  }
  requests_.push_back({sequence, std::move(blocks)});
  return true;
}

std::shared_ptr<Pins::Client> Pins::Find(uint64_t client, uint32_t pid) {
  MutexLock lock(&mu_);
  DropEnded();
  std::shared_ptr<Client>& found = clients_[client];
  if (found == nullptr) {
    UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
    if (!process.ok()) {
      clients_.erase(client);
      return nullptr;
    }
    found = std::shared_ptr<Client>(new Client(this, std::move(process)));
  }
  return found;
}

// A client that nobody else holds has no stream.
void Pins::DropEnded() {
  std::erase_if(clients_, [](const auto& entry) {
    const Client& client = *entry.second;
    return entry.second.use_count() == 1 && (client.requests_.empty() || client.HasEnded());
  });
}

size_t Pins::SupersededBytes() const {
  std::set<const BufferMemory*> seen;
  size_t bytes = 0;
  for (const auto& [id, client] : clients_) {
    for (const Client::OfRequest& request : client->requests_) {
      for (const BufferRef& block : request.blocks) {
        const BufferMemory* const memory = block->memory();
        if (!memory->superseded.load(std::memory_order_relaxed) || !seen.insert(memory).second) {
          continue;
        }
        bytes += block->whole()->size();
      }
    }
  }
  return bytes;
}

size_t Pins::superseded_bytes() {
  MutexLock lock(&mu_);
  DropEnded();
  return SupersededBytes();
}

}  // namespace cohort
