#ifndef COHORT_WORKER_GRADIENT_RING_H_
#define COHORT_WORKER_GRADIENT_RING_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/cluster/security.h"
#include "common/collective/collective_options.h"
#include "common/collective/peer_service.h"
#include "common/exchange/variable_access.h"
#include "common/graph/program.h"
#include "common/graph/step_membership.h"
#include "worker/dense_sums.h"
#include "worker/ring_buckets.h"

namespace cohort {

namespace v1 {
class Routes;
}  // namespace v1

class CollectiveGroup;
struct OperationName;

// Sums the dense gradients of synchronous steps among the replicas (communication: ring). A replica
// adds the gradients of its own closures of a step. During its last one it joins a reduce-scatter
// for each bucket as soon as all gradients of the bucket are final, and receives the sums of the
// shards that it owns. The backward pass continues meanwhile.
//
// The closures name the step, its try and how many of them this replica has. The group is one of
// all servers in the routes, whose processes are the replicas. It has the name of the try: the
// chief's generation, the timeline and the number of the try. So a new try, a rollback and a
// restarted chief each begin a new group.
//
// Errors end the group. They name the missing replica, and the chief begins a new try.
// SetRoutes and counters are thread-safe; the step thread calls the others.
class GradientRing final : public DenseSums {
 public:
  struct Options {
    uint64_t incarnation = 0;  // this replica's, which the routes have
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    Logger* log = nullptr;           // may be null; outlives this
    PeerService* service = nullptr;  // serves the address of this replica; outlives this
    // True if this closure is unwanted: waiting for other replicas then ends with Cancelled.
    std::function<bool(uint64_t closure)> should_stop;
    uint64_t bucket_bytes = uint64_t{1} << 20;
    // How long the others may make no progress. A replica that the chief does not hear for 20 s is
    // lost, and the chief cancels the closures of the others.
    Duration deadline = std::chrono::seconds(60);
  };

  explicit GradientRing(Options options);
  ~GradientRing() override;

  void SetRoutes(std::shared_ptr<const v1::Routes> routes);

  absl::Status Begin(const v1::Closure& closure, const Program& program,
                     std::span<const PushItem> pushes) override;
  void OnPushReady(size_t push) override;
  absl::StatusOr<std::span<const ShardSum>> Finish() override;
  // Leaves the group. What is in flight is given up.
  void Leave();

  struct Counters {
    uint64_t sums = 0;  // reduce-scatters
    uint64_t bytes_sent = 0;
    uint64_t bytes_received = 0;
    uint64_t early_sums = 0;  // begun while another bucket had gradients that were not final
  };
  Counters counters() const;
  // How often the step thread has looked up while it waited for other replicas. Thread-safe.
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  // The step whose gradients are being summed.
  struct Step {
    uint64_t timeline = 0;
    StepMembership place;  // that its first closure here has
    std::string program;
    std::shared_ptr<const v1::Routes> routes;
    std::vector<uint32_t> indices;  // those of closures that were begun here
    uint32_t closures = 0;          // that this replica has in all
  };

  bool IsOf(const Step& step, const v1::Closure& closure) const;
  absl::Status BeginStep(const v1::Closure& closure, const Program& program);
  // The next bucket is complete.
  absl::Status Use(size_t bucket);
  OperationName NameOf(size_t bucket) const;
  absl::Status StartSum(size_t bucket);
  absl::Status EnterGroup();
  void CountBytes();
  bool last() const { return step_->indices.size() == step_->closures; }

  const Options options_;

  mutable Mutex mu_;
  std::shared_ptr<const v1::Routes> routes_ ABSL_GUARDED_BY(mu_);

  // Used by the step thread only.
  std::optional<Step> step_;
  // By program, for the routes of the step; the others are void.
  std::map<std::string, std::unique_ptr<RingBuckets>> buckets_;
  std::shared_ptr<const v1::Routes> buckets_routes_;
  int ranks_ = 0;
  // The closure that was begun last.
  uint64_t closure_ = 0;
  std::span<const PushItem> pushes_;
  RingBuckets* open_ = nullptr;
  std::vector<size_t> missing_;  // by bucket: pushes that are not final
  size_t next_bucket_ = 0;       // the first one that is not used
  bool in_run_ = false;          // the backward pass may still run
  absl::Status status_;
  // Refers to the buffers of buckets_.
  std::unique_ptr<CollectiveGroup> group_;
  std::optional<GroupId> group_id_;
  uint32_t summing_ = 0;        // the first buckets are in flight
  CollectiveCounters counted_;  // the group's, at the last CountBytes

  std::atomic<uint64_t> turns_{0};
  std::atomic<uint64_t> sums_{0};
  std::atomic<uint64_t> early_sums_{0};
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_received_{0};
};

}  // namespace cohort

#endif  // COHORT_WORKER_GRADIENT_RING_H_
