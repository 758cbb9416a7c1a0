#include "deploy/launcher/run_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <string_view>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

// Names the process that holds the lock: "process 4711". The kernel does not report the process if
// it is in another container or has released the lock meanwhile.
std::string DescribeHolder(int fd) {
  struct flock held = {};
  held.l_type = F_WRLCK;
  const bool known = ::fcntl(fd, F_GETLK, &held) == 0 && held.l_type != F_UNLCK && held.l_pid > 0;
  return known ? fmt::format("process {}", held.l_pid) : "another process";
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunLock>> RunLock::Take(const std::string& directory) {
  absl::StatusOr<UniqueFd> fd = OpenToAppend(directory + "/launcher.lock");
  if (!fd.ok()) {
    const absl::string_view why = fd.status().message();
    return WithExitCode(
        FailedPrecondition("the run's directory cannot be locked: {}. Remove it, or give another "
                           "--run_dir",
                           std::string_view(why.data(), why.size())),
        ExitCode::kCantCreate);
  }
  struct flock wanted = {};
  wanted.l_type = F_WRLCK;
  if (::fcntl(fd->get(), F_SETLK, &wanted) != 0 && (errno == EACCES || errno == EAGAIN)) {
    const std::string holder = DescribeHolder(fd->get());
    return AlreadyExists(
        "the run's directory {} belongs to another `cohort local`, {}: end that one, "
        "or give another --run_dir",
        directory, holder);
  }
  return std::unique_ptr<RunLock>(new RunLock(*std::move(fd)));
}

}  // namespace cohort
