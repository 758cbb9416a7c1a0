#include "common/exchange/request_watch.h"

#include <algorithm>
#include <utility>

namespace cohort {
namespace {

constexpr int64_t kLooksPerTimeout = 4;
// A request that has moved fewer bytes leaves nothing in transit that is worth waiting for.
constexpr uint64_t kLeastInTransit = 1 << 20;

}  // namespace

void RequestWatch::Begin(int64_t now_us, int64_t timeout_us) {
  timeout_us_ = timeout_us;
  begin_us_ = quiet_since_us_ = now_us;
  next_look_us_ = now_us + timeout_us / kLooksPerTimeout;
  moved_ = 0;
  moved_for_us_ = 0;
  slow_ = false;
}

void RequestWatch::Unattended(int64_t us) {
  begin_us_ += us;
  quiet_since_us_ += us;
  next_look_us_ += us;
}

RequestWatch::Verdict RequestWatch::Look(const BytesMoved& moved, int64_t now_us) {
  const uint64_t before = std::exchange(moved_, moved.sent + moved.received);
  const bool moves = moved_ > before;
  if (moves) {
    quiet_since_us_ = now_us;
    moved_for_us_ = age_us(now_us);
  }
  const int64_t left = quiet_since_us_ + Patience() - now_us;
  if (left <= 0) return Verdict::kSilent;
  next_look_us_ = now_us + std::min(left, timeout_us_ / kLooksPerTimeout);
  const bool slow = moves && age_us(now_us) >= timeout_us_;
  return slow && !std::exchange(slow_, true) ? Verdict::kSlow : Verdict::kWait;
}

// What is in transit leaves at the rate at which the rest has moved.
int64_t RequestWatch::Patience() const {
  if (moved_ < kLeastInTransit) return timeout_us_;
  const double share =
      static_cast<double>(std::min(moved_, kInTransitBytes)) / static_cast<double>(moved_);
  return timeout_us_ + static_cast<int64_t>(share * static_cast<double>(moved_for_us_));
}

}  // namespace cohort
