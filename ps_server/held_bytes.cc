#include "ps_server/held_bytes.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/stream.h"

namespace cohort {

HeldBytes::Share::Share(HeldBytes* all, std::weak_ptr<Stream> stream)
    : all_(all), stream_(std::move(stream)) {
  MutexLock lock(&all_->mu_);
  all_->shares_.insert(this);
}

HeldBytes::Share::~Share() {
  Set(0);
  MutexLock lock(&all_->mu_);
  all_->shares_.erase(this);
}

bool HeldBytes::Share::Hold(size_t bytes) {
  const int64_t now = RealClock().Now().time_since_epoch().count();
  waits_since_.store(now, std::memory_order_relaxed);
  if (Set(bytes)) return true;
  all_->EndIdle(now);
  return false;
}

bool HeldBytes::Share::Keep(size_t bytes) {
  if (waits_since_.load(std::memory_order_relaxed) != 0) waits_since_.store(0);
  return Set(bytes);
}

bool HeldBytes::Share::Set(size_t bytes) {
  if (bytes == bytes_) return true;
  // Where it becomes less the sum wraps around and fits.
  const size_t more = bytes - bytes_;
  const size_t now = all_->bytes_.fetch_add(more, std::memory_order_relaxed) + more;
  if (bytes > bytes_ && now > all_->most_) {
    all_->bytes_.fetch_sub(more, std::memory_order_relaxed);
    return false;
  }
  bytes_ = bytes;
  return true;
}

// Each gives its share back on its own thread, as it learns of its end.
void HeldBytes::EndIdle(int64_t now) {
  std::vector<std::shared_ptr<Stream>> idle;
  {
    MutexLock lock(&mu_);
    for (const Share* share : shares_) {
      const int64_t since = share->waits_since_.load(std::memory_order_relaxed);
      if (since == 0 || now - since < patience_.count()) continue;
      if (auto stream = share->stream_.lock()) idle.push_back(std::move(stream));
    }
  }
  for (const auto& stream : idle) {
    stream->Close(DeadlineExceeded(
        "nothing more of an unfinished request has come for {:.0f} s, and others lack the memory "
        "that it holds",
        ToSeconds(patience_)));
  }
}

}  // namespace cohort
