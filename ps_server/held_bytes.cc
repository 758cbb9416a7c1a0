#include "ps_server/held_bytes.h"

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/stream/stream.h"

namespace cohort {
namespace {

// What streams keep may fill no more than this part of the whole.
constexpr size_t kPartKept = 4;

}  // namespace

HeldBytes::Share::Share(HeldBytes* all, std::weak_ptr<Stream> stream)
    : all_(all), stream_(std::move(stream)) {
  MutexLock lock(&all_->mu_);
  all_->shares_.insert(this);
}

HeldBytes::Share::~Share() {
  Set(0, 0);
  MutexLock lock(&all_->mu_);
  all_->shares_.erase(this);
}

bool HeldBytes::Share::Hold(size_t bytes) {
  const int64_t now = RealClock().Now().time_since_epoch().count();
  waits_since_.store(now, std::memory_order_relaxed);
  if (Set(bytes, all_->most_)) return true;
  all_->EndIdle(now, this);
  return false;
}

void HeldBytes::Share::Complete() {
  if (waits_since_.load(std::memory_order_relaxed) != 0) waits_since_.store(0);
}

bool HeldBytes::Share::Keep(size_t bytes) {
  Complete();
  return Set(bytes, all_->most_ / kPartKept);
}

bool HeldBytes::Share::Set(size_t bytes, size_t most) {
  if (bytes == bytes_) return true;
  // Where it becomes less the sum wraps around and fits.
  const size_t more = bytes - bytes_;
  const size_t now = all_->bytes_.fetch_add(more, std::memory_order_relaxed) + more;
  if (bytes > bytes_ && now > most) {
    all_->bytes_.fetch_sub(more, std::memory_order_relaxed);
    return false;
  }
  bytes_ = bytes;
  return true;
}

// Each gives its share back on its own thread, as it learns of its end. One whose client takes
// nothing any more, so that it cannot be told, ends without a word the next time.
void HeldBytes::EndIdle(int64_t now, const Share* but) {
  std::vector<std::pair<std::shared_ptr<Stream>, bool>> idle;
  {
    MutexLock lock(&mu_);
    for (Share* share : shares_) {
      const int64_t since = share->waits_since_.load(std::memory_order_relaxed);
      if (share == but || since == 0 || now - since < patience_.count()) continue;
      if (auto stream = share->stream_.lock()) {
        idle.emplace_back(std::move(stream), share->told_.exchange(true));
      }
    }
  }
  for (const auto& [stream, told] : idle) {
    if (told) {
      stream->Abort();
      continue;
    }
    stream->Close(DeadlineExceeded(
        "nothing more of an unfinished request has come for {:.0f} s, and others lack the memory "
        "that it holds",
        ToSeconds(patience_)));
  }
}

}  // namespace cohort
