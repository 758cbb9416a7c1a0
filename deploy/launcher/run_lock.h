#ifndef COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_
#define COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/unique_fd.h"

namespace cohort {

// A run's directory is one launcher's while it runs: two would write to the same logs. The file
// launcher.lock in it, empty and never removed, is locked with fcntl(2): the kernel tells who has
// it, and gives it back when that process ends, however it ends. A child that a launcher forks does
// not have it. Where the file system knows no locks, nothing is guarded.
class RunLock {
 public:
  // `directory` is there. Errors: AlreadyExists (exit 73) that names the other launcher's process;
  // FailedPrecondition (exit 73) where the file cannot be opened, or is no regular file.
  static absl::StatusOr<std::unique_ptr<RunLock>> Take(const std::string& directory);

 private:
  explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
  const UniqueFd fd_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_
