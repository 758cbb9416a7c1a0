#ifndef COHORT_COMMON_CLUSTER_PEER_REFUSALS_H_
#define COHORT_COMMON_CLUSTER_PEER_REFUSALS_H_

#include <absl/status/status.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/base/mutex.h"

namespace cohort {

// Why a peer was refused: the label `reason` of cohort_refused_peers_total.
enum class RefusalReason {
  kPlaintext,      // no TLS on a port of TLS
  kNoCertificate,  // TLS without a certificate
  kUntrusted,      // the certificate is not signed by the CA
  kExpired,        // it has expired, or is not valid yet
  kIdentity,       // it names no task, another cluster, or another task than the dialed one
  kMethod,         // its role may not call the method
  kClaim,          // the peer says that it is another task than its certificate
  kUser,           // a unix socket, or plaintext on loopback: the peer belongs to another user
  kSecret,         // its stream does not carry the secret of the run
  kCrowd,          // too many connections wait for their handshake or their first stream
};
inline constexpr int kNumRefusalReasons = 10;

// "plaintext", "no_certificate", ...
std::string_view RefusalReasonName(RefusalReason reason);

// What is known about a refused peer.
struct RefusedPeer {
  std::string address;   // "ipv4:10.0.0.3:4000"
  std::string identity;  // what its certificate says; "": unknown
  std::string method;    // what it called; "": nothing yet, or this end has dialed
};

// Counts refused peers and logs them. A peer that tries again and again is logged every ten
// seconds. Thread-safe.
class PeerRefusals {
 public:
  // Until this call refusals are only counted. `log` must outlive all that listens and dials.
  void LogTo(Logger* log) { log_.store(log); }

  // Returns `why` as it is.
  absl::Status Add(RefusalReason reason, const RefusedPeer& peer, absl::Status why);

  uint64_t count(RefusalReason reason) const {
    return counts_[static_cast<size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Logged {
    Clock::time_point at;
    uint64_t unlogged = 0;  // refusals since then
  };

  // How many refusals of this kind the line stands for; 0: no line now.
  uint64_t TakeLine(const std::string& kind);

  std::array<std::atomic<uint64_t>, kNumRefusalReasons> counts_ = {};
  std::atomic<Logger*> log_{nullptr};
  Mutex mu_;
  std::map<std::string, Logged> logged_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_PEER_REFUSALS_H_
