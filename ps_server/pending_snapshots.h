#ifndef COHORT_PS_SERVER_PENDING_SNAPSHOTS_H_
#define COHORT_PS_SERVER_PENDING_SNAPSHOTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/tablet/shard_store.h"

namespace cohort {

// The snapshots that are not on disk yet, by cut. A cancelled one stops at its next block and does
// not count any more. Thread-safe.
class PendingSnapshots {
 public:
  // Cancels an older snapshot of the same cut.
  void Add(const std::shared_ptr<SnapshotJob>& job);
  // The snapshot was written, or writing it has failed.
  void Remove(const std::shared_ptr<SnapshotJob>& job);
  void Cancel(uint64_t cut);
  void CancelAll();

  // True if no snapshot is on its way. Does not wait.
  bool empty() const { return pending_.load(std::memory_order_acquire) == 0; }
  // True if a snapshot keeps memory. Takes no lock if none is on its way.
  bool HoldAny() const;
  // See SnapshotJob.
  uint64_t SupersededBytes() const;
  // True if older values that take `more` bytes may be kept beside those that are, up to `most`;
  // then they count. `others`: those that no snapshot keeps. What there is is counted at most 20
  // times a second, because there may be many blocks.
  bool MayKeep(uint64_t more, uint64_t most, const std::function<uint64_t()>& others) const;
  // Waits until `done` holds, which is looked at whenever a snapshot ends and each 50 ms. Returns
  // false at the deadline.
  bool WaitUntil(const std::function<bool()>& done, TimePoint deadline) const;
  // Waits until no snapshot is left. Returns false at the deadline.
  bool WaitForNone(TimePoint deadline) const;

 private:
  void NoteChange() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  size_t Count() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t Superseded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<size_t> pending_{0};  // Count()
  mutable Mutex mu_;
  mutable CondVar changed_;
  std::map<uint64_t, std::shared_ptr<SnapshotJob>> jobs_ ABSL_GUARDED_BY(mu_);
  // What MayKeep has counted and admitted.
  mutable uint64_t kept_ ABSL_GUARDED_BY(mu_) = 0;
  mutable TimePoint counted_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PENDING_SNAPSHOTS_H_
