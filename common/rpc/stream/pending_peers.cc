#include "common/rpc/stream/pending_peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace cohort {
namespace {

constexpr size_t kMostNamed = 3;

std::string_view HostOf(std::string_view address) { return address.substr(0, address.rfind(':')); }

}  // namespace

void PendingPeers::Expire() {
  const Clock::time_point oldest = Clock::now() - kLongest;
  while (!peers_.empty() && peers_.front().at < oldest) peers_.pop_front();
}

bool PendingPeers::Add(const std::string& address) {
  MutexLock lock(&mu_);
  Expire();
  const auto same_host = [host = HostOf(address)](const Peer& peer) {
    return HostOf(peer.address) == host;
  };
  if (peers_.size() >= kMost) return false;
  if (std::count_if(peers_.begin(), peers_.end(), same_host) >=
      static_cast<std::ptrdiff_t>(kMostOfHost)) {
    return false;
  }
  peers_.push_back({address, Clock::now()});
  return true;
}

void PendingPeers::Admit(const std::string& address) {
  MutexLock lock(&mu_);
  const auto found = std::find_if(peers_.begin(), peers_.end(),
                                  [&address](const Peer& peer) { return peer.address == address; });
  if (found != peers_.end()) peers_.erase(found);
}

std::string PendingPeers::Describe() {
  MutexLock lock(&mu_);
  Expire();
  std::set<std::string_view> hosts;
  for (const Peer& peer : peers_) hosts.insert(HostOf(peer.address));
  if (hosts.size() == 1) return peers_.back().address;
  std::string text = hosts.empty() ? "unknown" : "one of";
  size_t named = 0;
  for (const std::string_view host : hosts) {
    if (named++ == kMostNamed) return text + " ...";
    text += fmt::format(" {}", host);
  }
  return text;
}

void PendingPeers::Forget() {
  MutexLock lock(&mu_);
  if (!peers_.empty()) peers_.pop_front();
}

}  // namespace cohort
