#ifndef COHORT_COMMON_COLLECTIVE_ACCEPTED_STREAMS_H_
#define COHORT_COMMON_COLLECTIVE_ACCEPTED_STREAMS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/collective/peer_service.h"

namespace cohort {

// The streams that the other ranks have opened to this one, by rank. Threads of the server add and
// remove those of gRPC, and bring the connections of others; the thread of the group sends on all.
// Thread-safe.
class AcceptedStreams final : public PeerService::Acceptor,
                              public std::enable_shared_from_this<AcceptedStreams> {
 public:
  // `incarnations`, `workers`: of all ranks, the latter their indices among the workers. Each
  // change calls `wake`, until Detach.
  AcceptedStreams(std::vector<uint64_t> incarnations, std::vector<int> workers, int rank,
                  std::function<void()> wake);

  std::unique_ptr<StreamHandler> Accept(const PeerStreamName& name,
                                        std::shared_ptr<Stream> stream) override;
  void AcceptSocket(const PeerStreamName& name, UniqueFd connection) override;
  bool Fits(const PeerStreamName& name) const override;

  // A connection that waits for the thread of the group. The newest ones of each rank are kept, and
  // for a limited time: the thread may be busy for long.
  struct Socket {
    PeerStreamName name;
    UniqueFd connection;
    TimePoint at;
  };
  static constexpr int kMostSocketsOfRank = 2;
  static constexpr std::chrono::seconds kLongestSocketWait{10};
  std::vector<Socket> TakeSockets();
  // True if a stream or a socket was added, or a stream has ended, since the last call.
  bool TakeChange() { return changed_.exchange(false, std::memory_order_acquire); }
  // The stream to a rank; null if there is none.
  std::shared_ptr<Stream> stream(int rank) const;
  bool empty() const;
  // No call wakes the thread of the group from now on. Accept refuses.
  void Detach();
  // Waits until all streams have ended. Returns false if the deadline came first.
  bool AwaitEmpty(TimePoint deadline);

 private:
  class Handler;

  void OnClosed(int rank);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropOldSockets() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::vector<uint64_t> incarnations_;
  const std::vector<int> workers_;
  const int rank_;
  std::atomic<bool> changed_{false};

  mutable Mutex mu_;
  CondVar ended_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mu_);  // null: detached
  std::vector<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);
  size_t open_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Socket> sockets_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_COLLECTIVE_ACCEPTED_STREAMS_H_
