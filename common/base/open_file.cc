#include "common/base/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/base/status.h"

namespace cohort {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// Without waiting for what is no file after all; but for whoever holds a lease or a delegation of a
// file (Samba, an NFS server), who is made to give it back and for whom the system sets a limit.
int OpenWithoutWaiting(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_NONBLOCK, 0644);
  return fd < 0 && errno == EWOULDBLOCK ? ::open(path.c_str(), flags, 0644) : fd;
}

absl::Status NotRegular(const std::string& path, mode_t mode) {
  return DataLoss("{} is {}, not a regular file", path, KindOf(mode));
}

absl::StatusOr<int> OpenRegular(const std::string& path, int flags) {
  // Before it is opened: some devices do something when they are. Afterwards again, for what was
  // put there meanwhile.
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) {
    const bool made = errno == ENOENT && (flags & O_CREAT) != 0;
    if (!made) return ErrnoStatus("cannot open", path, errno);
  } else if (!S_ISREG(info.st_mode)) {
    return NotRegular(path, info.st_mode);
  }
  const int fd = OpenWithoutWaiting(path, flags | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return ErrnoStatus("cannot open", path, errno);
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  ::close(fd);
  return NotRegular(path, info.st_mode);
}

}  // namespace

std::string_view KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device";
}

absl::Status ErrnoStatus(std::string_view what, std::string_view path, int error) {
  return absl::Status(CodeOf(error),
                      fmt::format("{} {}: {}", what, path, std::generic_category().message(error)));
}

absl::StatusOr<int> OpenRegularFile(const std::string& path) { return OpenRegular(path, O_RDONLY); }

absl::StatusOr<int> OpenToAppend(const std::string& path) {
  return OpenRegular(path, O_WRONLY | O_APPEND | O_CREAT);
}

}  // namespace cohort
