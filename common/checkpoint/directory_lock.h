#ifndef COHORT_COMMON_CHECKPOINT_DIRECTORY_LOCK_H_
#define COHORT_COMMON_CHECKPOINT_DIRECTORY_LOCK_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/unique_fd.h"

namespace cohort {

// The name of the lock's file in a checkpoint directory. The file is never removed.
inline constexpr std::string_view kLockName = "chief.lock";

// A checkpoint directory belongs to one chief at a time: the one that holds this lock. The file
// <directory>/chief.lock is locked with flock(2) and names its holder in one line for people:
//
//   {"host":"host3","host_id":"...","incarnation":"00...2a","job":"recommender-0a1b","pid":4711,
//    "renews":true,"since":"2026-01-31T12:00:00Z"}
//
// The kernel releases the lock when the holder dies, so a chief that was killed comes back at once.
// Between hosts this needs a file system with working flock (local disks, NFSv4, CephFS, Lustre
// with -o flock).
//
// `takeover` takes the lock from a holder that is alive: it puts another file in the place of
// chief.lock. The previous holder calls Check before each write to the directory, and Check then
// fails. What it writes between a Check and a takeover is harmless: the records are in its own
// journal file, where the successor ignores them, and a checkpoint counts only if its timeline is
// the higher one.
class DirectoryLock {
 public:
  struct Options {
    std::string directory;  // exists
    std::string job;
    uint64_t incarnation = 0;  // the chief's; differs from start to start
    bool takeover = false;
  };

  // Takes the lock. Errors: Unavailable (exit 169) that names the holder; FailedPrecondition
  // (exit 73) if the file system has no flock, or if chief.lock is not a regular file or was not
  // written by a chief (it is left as it is, `takeover` or not); those of the file.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const Options& options);

  // Returns OK while the lock belongs to this chief. Errors: Aborted (exit 169), with a FailureInfo
  // of role "chief", if another chief has taken the lock; FailedPrecondition (exit 74) if the
  // directory or chief.lock was removed, moved or replaced. Returns OK if the storage does not
  // answer: the write that follows reports that. Thread-safe.
  absl::Status Check() const;

  // Marks the lock's file, so that others see that its holder lives (lock_lease.h). Ignores storage
  // that does not answer.
  void Renew() const;
  // Notes in the lock's file that a user has stopped the job. The next holder sees it.
  void NoteStopped() const;
  // The holder before this one has called NoteStopped.
  bool former_stopped() const { return former_stopped_; }
  // Who has the lock of a directory, and its newest mark; nullopt: nobody can be read.
  struct Holder {
    std::string name;     // for people
    bool renews = false;  // it calls Renew
    uint64_t inode = 0;
    int64_t marked_ns = 0;
    bool operator==(const Holder&) const = default;
  };
  static std::optional<Holder> HolderOf(const std::string& directory);

 private:
  DirectoryLock(const Options& options, std::string text, UniqueFd fd);
  // Replaces chief.lock by a new file, even if another chief has locked the old one.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Replace(const Options& options,
                                                                const std::string& text);

  const std::string directory_;
  const std::string text_;  // the contents of the file
  const UniqueFd fd_;
  bool former_stopped_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_DIRECTORY_LOCK_H_
