#include "common/cluster/peer_refusals.h"

#include <fmt/format.h>

#include <utility>

namespace cohort {
namespace {

constexpr std::string_view kReasonNames[kNumRefusalReasons] = {
    "plaintext", "no_certificate", "untrusted", "expired", "identity",
    "method",    "claim",          "user",      "secret",  "crowd"};
constexpr std::chrono::seconds kBetweenLines{10};
constexpr size_t kMostKinds = 256;  // refusals that are remembered

// Each attempt of a peer comes from another port.
std::string_view WithoutPort(std::string_view address) {
  return address.starts_with("unix:") ? address : address.substr(0, address.rfind(':'));
}

}  // namespace

std::string_view RefusalReasonName(RefusalReason reason) {
  return kReasonNames[static_cast<size_t>(reason)];
}

absl::Status PeerRefusals::Add(RefusalReason reason, const RefusedPeer& peer, absl::Status why) {
  counts_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  Logger* const log = log_.load();
  if (log == nullptr) return why;
  // Nobody has verified what the others say, so it must not make another kind.
  const bool verified = reason == RefusalReason::kIdentity || reason == RefusalReason::kMethod ||
                        reason == RefusalReason::kClaim || reason == RefusalReason::kUser;
  std::string kind = fmt::format("{} {}", RefusalReasonName(reason), WithoutPort(peer.address));
  if (verified) kind += fmt::format(" {} {}", peer.identity, peer.method);
  const uint64_t refusals = TakeLine(kind);
  if (refusals == 0) return why;
  log->Warning("peer_refused", {{"reason", RefusalReasonName(reason)},
                                {"address", peer.address},
                                {"identity", peer.identity},
                                {"method", peer.method},
                                {"message", std::string(why.message())},
                                {"refusals", refusals}});
  return why;
}

uint64_t PeerRefusals::TakeLine(const std::string& kind) {
  const Clock::time_point now = Clock::now();
  MutexLock lock(&mu_);
  const auto found = logged_.find(kind);
  if (found == logged_.end()) {
    if (logged_.size() >= kMostKinds) logged_.clear();
    logged_[kind] = {now, 0};
    return 1;
  }
  Logged& logged = found->second;
  if (now < logged.at + kBetweenLines) {
    ++logged.unlogged;
    return 0;
  }
  logged.at = now;
  return std::exchange(logged.unlogged, 0) + 1;
}

}  // namespace cohort
