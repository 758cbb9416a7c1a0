#ifndef COHORT_COMMON_CHECKPOINT_LOCK_LEASE_H_
#define COHORT_COMMON_CHECKPOINT_LOCK_LEASE_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/checkpoint/directory_lock.h"

namespace cohort {

// Renews the lock of a checkpoint directory once a second, on a thread of its own, so that a
// standby chief on another host sees that the holder lives. The lock itself does not tell: not
// every file system releases the flock of a host that is gone.
class LockLease {
 public:
  explicit LockLease(std::shared_ptr<DirectoryLock> lock);
  ~LockLease();

 private:
  void Run();

  const std::shared_ptr<DirectoryLock> lock_;
  Mutex mu_;
  CondVar ended_;
  bool end_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

struct StandbyOptions {
  // A chief that has not renewed its lock for as long is taken for dead.
  Duration silence = std::chrono::seconds(4);
  Duration poll = std::chrono::milliseconds(250);
  const std::atomic<bool>* interrupted = nullptr;        // ends the wait; null: nothing does
  std::function<void(const std::string& holder)> waits;  // called once for each holder
};

struct StandbyLock {
  std::unique_ptr<DirectoryLock> lock;
  bool took_over = false;  // from a chief that may still live: it is fenced (DirectoryLock)
};

// Waits until nobody has the lock, or its holder has been silent for too long, and takes it. A
// holder of a version that does not renew its lock is never taken for dead. Errors: Cancelled if it
// was interrupted; those of DirectoryLock::Take.
absl::StatusOr<StandbyLock> AwaitLock(const DirectoryLock::Options& options,
                                      const StandbyOptions& standby);

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_LOCK_LEASE_H_
