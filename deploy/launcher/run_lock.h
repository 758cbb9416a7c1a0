#ifndef COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_
#define COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/unique_fd.h"

namespace cohort {

// Locks a run's directory for one launcher: two launchers would write to the same logs. The
// launcher locks the file launcher.lock with fcntl(2); the file is empty and never removed. The
// kernel reports the process that holds the lock, and releases the lock when that process ends. The
// launcher's children do not hold it. If the file system has no locks, nothing is guarded.
class RunLock {
 public:
  // `directory` must exist. Errors: AlreadyExists (exit 73) that names the other launcher's
  // process; FailedPrecondition (exit 73) if the file cannot be opened, or is not a regular file.
  static absl::StatusOr<std::unique_ptr<RunLock>> Take(const std::string& directory);

 private:
  explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
  const UniqueFd fd_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_
