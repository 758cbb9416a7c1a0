#ifndef COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_
#define COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>

#include "common/base/unique_fd.h"

namespace cohort {

// A run's directory belongs to one launcher while it runs: two would write to the same logs. The
// file launcher.lock in it, empty and never removed, is locked with fcntl(2). The kernel tells who
// holds the lock, and releases it when that process ends. A child of the launcher does not hold it.
// If the file system has no locks, nothing is guarded.
class RunLock {
 public:
  // `directory` exists. Errors: AlreadyExists (exit 73) that names the other launcher's process;
  // FailedPrecondition (exit 73) if the file cannot be opened, or is not a regular file.
  static absl::StatusOr<std::unique_ptr<RunLock>> Take(const std::string& directory);

 private:
  explicit RunLock(UniqueFd fd) : fd_(std::move(fd)) {}
  const UniqueFd fd_;
};

}  // namespace cohort

#endif  // COHORT_DEPLOY_LAUNCHER_RUN_LOCK_H_
