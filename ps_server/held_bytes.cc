#include "ps_server/held_bytes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/stream/stream.h"

namespace cohort {
namespace {

// Memory that streams keep may fill a fourth of the limit.
constexpr size_t kPartKept = 4;

int64_t NowNanos() { return RealClock().Now().time_since_epoch().count(); }

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
  const int64_t now = NowNanos();
  waits_since_.store(now, std::memory_order_relaxed);
  if (began_.load(std::memory_order_relaxed) == 0) began_.store(++all_->begun_);
  if (Set(bytes, all_->most_) || SetAlone(bytes)) return true;
  if (IsOldest() && Set(bytes, all_->most_alone())) return true;
  all_->EndIdle(now, this);
  return false;
}

bool HeldBytes::Share::HoldWhole(size_t bytes) {
  Complete();
  if (Set(bytes, all_->most_) || SetAlone(bytes)) return true;
  all_->EndIdle(NowNanos(), this);
  return false;
}

void HeldBytes::Share::Complete() {
  if (waits_since_.load(std::memory_order_relaxed) == 0) return;
  waits_since_.store(0);
  began_.store(0);
}

bool HeldBytes::Share::Keep(size_t bytes) {
  Complete();
  return Set(bytes, all_->most_ / kPartKept);
}

bool HeldBytes::Share::Set(size_t bytes, size_t most) {
  if (bytes == bytes_) return true;
  // If the share shrinks, the difference wraps around, and so does the sum.
  const size_t more = bytes - bytes_;
  const size_t now = all_->bytes_.fetch_add(more, std::memory_order_relaxed) + more;
  if (bytes > bytes_ && now > most) {
    all_->bytes_.fetch_sub(more, std::memory_order_relaxed);
    return false;
  }
  bytes_ = bytes;
  return true;
}

// If several large requests come at once, those that find the others large give up and come again;
// the last one finds itself alone.
bool HeldBytes::Share::SetAlone(size_t bytes) {
  const size_t others = all_->bytes() - bytes_;
  return others <= all_->most_ / kPartKept && Set(bytes, all_->most_alone());
}

bool HeldBytes::Share::IsOldest() const {
  const uint64_t own = began_;
  MutexLock lock(&all_->mu_);
  return std::ranges::none_of(all_->shares_, [own](const Share* share) {
    const uint64_t began = share->began_;
    return began != 0 && began < own;
  });
}

// Each request gives its share back on its own thread, when its stream has ended. A stream whose
// client reads nothing any more does not end by Close, so the second time it is aborted.
void HeldBytes::EndIdle(int64_t now, const Share* but) {
  std::vector<std::pair<std::shared_ptr<Stream>, bool>> idle;
  {
    MutexLock lock(&mu_);
    for (Share* share : shares_) {
      const int64_t since = share->waits_since_.load(std::memory_order_relaxed);
      if (share == but || since == 0 || now - since < patience_.count()) continue;
      if (auto stream = share->stream_.lock()) {
        idle.emplace_back(std::move(stream), share->closed_.exchange(true));
      }
    }
  }
  for (const auto& [stream, was_closed] : idle) {
    if (was_closed) {
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
