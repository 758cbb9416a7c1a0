#include "ps_server/pending_snapshots.h"

#include <algorithm>

namespace cohort {
namespace {

constexpr Duration kCountEvery = std::chrono::milliseconds(50);

}  // namespace

void PendingSnapshots::Add(const std::shared_ptr<SnapshotJob>& job) {
  MutexLock lock(&mu_);
  std::shared_ptr<SnapshotJob>& place = jobs_[job->cut];
  if (place != nullptr) place->cancelled = true;
  place = job;
  NoteChange();
}

void PendingSnapshots::Remove(const std::shared_ptr<SnapshotJob>& job) {
  MutexLock lock(&mu_);
  const auto it = jobs_.find(job->cut);
  if (it != jobs_.end() && it->second == job) jobs_.erase(it);
  NoteChange();
}

void PendingSnapshots::Cancel(uint64_t cut) {
  MutexLock lock(&mu_);
  const auto it = jobs_.find(cut);
  if (it != jobs_.end()) it->second->cancelled = true;
  NoteChange();
}

void PendingSnapshots::CancelAll() {
  MutexLock lock(&mu_);
  for (const auto& [cut, job] : jobs_) job->cancelled = true;
  NoteChange();
}

void PendingSnapshots::NoteChange() {
  pending_.store(Count(), std::memory_order_release);
  changed_.SignalAll();
}

size_t PendingSnapshots::Count() const {
  return static_cast<size_t>(std::count_if(
      jobs_.begin(), jobs_.end(), [](const auto& entry) { return !entry.second->cancelled; }));
}

bool PendingSnapshots::HoldAny() const {
  if (empty()) return false;
  MutexLock lock(&mu_);
  return std::ranges::any_of(jobs_, [](const auto& entry) {
    return !entry.second->cancelled && entry.second->holds_any();
  });
}

bool PendingSnapshots::MayKeep(uint64_t more, uint64_t most,
                               const std::function<uint64_t()>& others) const {
  const TimePoint now = RealClock().Now();
  MutexLock lock(&mu_);
  if (now - counted_ >= kCountEvery) {
    kept_ = others() + Superseded();
    counted_ = now;
  }
  if (kept_ + more > most) return false;
  kept_ += more;
  return true;
}

uint64_t PendingSnapshots::SupersededBytes() const {
  MutexLock lock(&mu_);
  return Superseded();
}

uint64_t PendingSnapshots::Superseded() const {
  uint64_t bytes = 0;
  for (const auto& [cut, job] : jobs_) bytes += job->superseded_bytes();
  return bytes;
}

bool PendingSnapshots::WaitUntil(const std::function<bool()>& done, TimePoint deadline) const {
  while (!done()) {
    MutexLock lock(&mu_);
    const TimePoint now = RealClock().Now();
    if (now >= deadline) return false;
    changed_.WaitUntil(&mu_, std::min(deadline, now + std::chrono::milliseconds(50)));
  }
  return true;
}

bool PendingSnapshots::WaitForNone(TimePoint deadline) const {
  MutexLock lock(&mu_);
  while (Count() > 0) {
    if (!changed_.WaitUntil(&mu_, deadline)) return Count() == 0;
  }
  return true;
}

}  // namespace cohort
