#ifndef COHORT_COMMON_RPC_STREAM_PENDING_PEERS_H_
#define COHORT_COMMON_RPC_STREAM_PENDING_PEERS_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>

#include "common/base/mutex.h"

namespace cohort {

// The connections of gRPC whose peers have not been admitted yet: they are in their handshake, or
// have opened no stream. Their number is limited, and so is the share of one host, so
// that a host which fills it does not lock out the others. A connection counts for at most ten
// seconds: then its handshake has failed, or it has proved a certificate. Thread-safe.
class PendingPeers {
 public:
  static constexpr size_t kMost = 256;
  static constexpr size_t kMostOfHost = 128;
  static constexpr std::chrono::seconds kLongest{10};

  // `address`: as gRPC names the peer ("ipv4:10.0.0.3:4000"). Returns false if too many wait: the
  // caller closes the connection.
  bool Add(const std::string& address);
  // A stream of this peer has been admitted.
  void Admit(const std::string& address);
  // Whose handshake may be under way, for messages: gRPC does not say it.
  std::string Describe();
  // A handshake was refused: there is one connection less.
  void Forget();

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    std::string address;
    Clock::time_point at;
  };
  void Expire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  std::deque<Peer> peers_ ABSL_GUARDED_BY(mu_);  // the oldest first
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_PENDING_PEERS_H_
