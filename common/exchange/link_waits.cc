#include "common/exchange/link_waits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace cohort {
namespace {

// The value of which this share of all is not larger.
template <typename Counts>
double Quantile(const Counts& counts, uint64_t all, double share) {
  const auto rank = static_cast<uint64_t>(std::ceil(share * static_cast<double>(all)));
  uint64_t seen = 0;
  size_t bucket = 0;
  while (bucket + 1 < counts.size() && (seen += counts[bucket]) < rank) ++bucket;
  return LinkWaits::MiddleOf(bucket) / 1e6;
}

}  // namespace

// Below 4 each value has a bucket. From there on the highest bit and the two after it choose.
size_t LinkWaits::BucketOf(int64_t wait_us) {
  const auto us = static_cast<uint64_t>(std::clamp<int64_t>(wait_us, 0, UINT32_MAX));
  if (us < 4) return us;
  const size_t high = static_cast<size_t>(std::bit_width(us)) - 1;
  return 4 * (high - 1) + ((us >> (high - 2)) & 3);
}

double LinkWaits::MiddleOf(size_t bucket) {
  if (bucket < 4) return static_cast<double>(bucket);
  const size_t high = bucket / 4 + 1;
  const auto width = static_cast<double>(uint64_t{1} << (high - 2));
  return width * (static_cast<double>(4 + bucket % 4) + 0.5);
}

LinkWaits::Link* LinkWaits::Find(uint32_t server) {
  if (known_.size() <= server) known_.resize(server + 1, nullptr);
  MutexLock lock(&mu_);
  std::unique_ptr<Link>& link = links_[server];
  if (link == nullptr) link = std::make_unique<Link>();
  return known_[server] = link.get();
}

std::vector<LinkWait> LinkWaits::Take() {
  std::vector<LinkWait> waits;
  MutexLock lock(&mu_);
  for (const auto& [server, link] : links_) {
    Counts added{};
    uint64_t all = 0;
    for (size_t i = 0; i < kBuckets; ++i) {
      const uint64_t now = link->counts[i].load(std::memory_order_relaxed);
      added[i] = now - std::exchange(link->taken[i], now);
      all += added[i];
    }
    if (all == 0) continue;
    waits.push_back({.server = server,
                     .requests = all,
                     .p50_seconds = Quantile(added, all, 0.5),
                     .p99_seconds = Quantile(added, all, 0.99)});
  }
  return waits;
}

}  // namespace cohort
