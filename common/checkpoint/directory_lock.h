#ifndef COHORT_COMMON_CHECKPOINT_DIRECTORY_LOCK_H_
#define COHORT_COMMON_CHECKPOINT_DIRECTORY_LOCK_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace cohort {

// The name of the lock's file in a checkpoint directory. It is never removed.
inline constexpr std::string_view kLockName = "chief.lock";

// A checkpoint directory is one chief's at a time: the chief's, while it has this lock. Who has it
// stands in the file <directory>/chief.lock, one line for people:
//
//   {"host":"host3","host_id":"...","incarnation":"00...2a","job":"recommender-0a1b","pid":4711,
//    "since":"2026-01-31T12:00:00Z"}
//
// Two things say that the holder is alive. The file is locked with flock(2), which the kernel gives
// back when the process dies, however it dies; between hosts flock works on NFSv4, and where it is
// only the host's own (or is not there at all) nothing is seen of it. So the holder also touches
// the file, once a second from Take on, and whoever finds the file unlocked, with a holder of
// another host that has not let go, watches it for a few seconds, by the storage's clock alone: a
// touch means refusal. A chief that was killed comes back at once on its own host, and after those
// seconds on another.
//
// `takeover` takes the lock from a holder that lives: another file takes the name. The former
// holder finds that out with Check, before each thing that it writes or deletes, and once a second
// while its job runs.
//
// What is guaranteed: on one host, and between hosts where flock works, two chiefs never have one
// directory unless `takeover` is given; where flock does not work between hosts, not unless the two
// start within the same seconds or the holder stood still (a stopped process, storage that hangs)
// while it was watched; then one of them finds out with Check. What is not: a holder from whom the
// lock is taken in between a Check and the write behind it still writes that. It is one batch of
// records of its own journal file, which do not count any more, the commit of one checkpoint, which
// counts if its timeline is the higher one, or one deletion: of a checkpoint that was too old by
// then; of a checkpoint, a journal file or a token of a former run, for --fresh or as a job starts.
class DirectoryLock {
 public:
  struct Options {
    std::string directory;  // is there
    std::string job;
    uint64_t incarnation = 0;  // of the chief; differs from start to start
    bool takeover = false;
    std::string host_id;  // "" = HostId()
    Duration beat = std::chrono::seconds(1);
    Duration watch = std::chrono::seconds(5);  // several beats
    const std::atomic<bool>* interrupt = nullptr;
    std::function<void(const std::string&)> on_wait;  // may be empty: told that it watches
  };

  // Errors: Unavailable (exit 69) that names the holder; FailedPrecondition (exit 73) where what
  // has the name is no regular file, or not empty and not written by a chief: it stays as it is,
  // `takeover` or not; Cancelled (interrupt); those of the file.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Take(const Options& options);
  // Lets go, where it is still the holder.
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  // Errors: Aborted (exit 69), with a FailureInfo of role "chief", where another chief has taken
  // the lock; FailedPrecondition (exit 74) where the directory was deleted, moved or replaced, or
  // the file was removed, replaced or damaged.
  // Storage that does not answer is no error here: writing will tell. Thread-safe.
  absl::Status Check() const;

 private:
  DirectoryLock(const Options& options, std::string text, UniqueFd fd);
  // Touches the file until the end.
  void Beat();
  // Takes the name for a new file, whoever has locked the old one.
  static absl::StatusOr<std::unique_ptr<DirectoryLock>> Replace(const Options& options,
                                                                const std::string& text);

  const std::string directory_;
  const std::pair<uint64_t, uint64_t> directory_id_;  // device and inode, as it was taken
  const std::string text_;                            // of the file
  const Duration beat_;
  const UniqueFd fd_;
  Mutex mu_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread beating_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_CHECKPOINT_DIRECTORY_LOCK_H_
