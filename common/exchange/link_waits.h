#ifndef COHORT_COMMON_EXCHANGE_LINK_WAITS_H_
#define COHORT_COMMON_EXCHANGE_LINK_WAITS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace cohort {

// How long one server has let this process wait.
struct LinkWait {
  uint32_t server = 0;
  uint64_t requests = 0;
  double p50_seconds = 0;
  double p99_seconds = 0;
};

// Counts how long servers let the step thread wait (Exchange::TakeWait), a histogram for each. The
// step thread adds, without a lock or an allocation except for the first wait of a server. Another
// thread takes.
class LinkWaits {
 public:
  // Called by one thread.
  void Add(uint32_t server, int64_t wait_us) {
    Link* const link = server < known_.size() ? known_[server] : nullptr;
    Count(link != nullptr ? link : Find(server), wait_us);
  }
  // What was added since the last Take, by server. Servers without a wait are absent. Thread-safe.
  std::vector<LinkWait> Take();

  // Four buckets for each power of two of microseconds, up to 2^32: a quantile is wrong by at most
  // an eighth.
  static constexpr size_t kBuckets = 4 * 32;
  static size_t BucketOf(int64_t wait_us);
  // The middle of a bucket, in microseconds.
  static double MiddleOf(size_t bucket);

 private:
  using Counts = std::array<uint64_t, kBuckets>;
  struct Link {
    std::array<std::atomic<uint64_t>, kBuckets> counts{};
    Counts taken{};  // guarded by mu_: what earlier calls of Take have seen
  };

  static void Count(Link* link, int64_t wait_us) {
    std::atomic<uint64_t>& count = link->counts[BucketOf(wait_us)];
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  Link* Find(uint32_t server);

  std::vector<Link*> known_;  // by server; the adding thread's
  Mutex mu_;
  std::map<uint32_t, std::unique_ptr<Link>> links_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_LINK_WAITS_H_
