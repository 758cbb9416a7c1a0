#include "common/os/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

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
    default:
      return IsDiskFull(error) ? absl::StatusCode::kResourceExhausted
                               : absl::StatusCode::kUnavailable;
  }
}

// O_NONBLOCK avoids blocking on something that is not a regular file after all. But a lease or a
// delegation (Samba, an NFS server) must be waited for: its holder must give it back, and the
// system limits that time.
int OpenWithoutWaiting(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_NONBLOCK, 0644);
  return fd < 0 && errno == EWOULDBLOCK ? ::open(path.c_str(), flags, 0644) : fd;
}

absl::Status NotRegular(const std::string& path, mode_t mode) {
  return DataLoss("{} is {}, not a regular file", path, FileTypeName(mode));
}

absl::StatusOr<UniqueFd> OpenRegular(const std::string& path, int flags) {
  OpenedFile opened = OpenIfRegular(path, flags);
  if (opened.fd.ok()) return std::move(opened.fd);
  if (opened.error == 0) return NotRegular(path, opened.mode);
  return ErrnoStatus("cannot open", path, opened.error);
}

}  // namespace

std::string_view FileTypeName(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device";
}

bool IsDiskFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

absl::Status ErrnoStatus(std::string_view what, std::string_view path, int error) {
  const char* const todo = error == EMFILE ? " (`ulimit -n` shows the limit)" : "";
  return absl::Status(CodeOf(error), fmt::format("{} {}: {}{}", what, path,
                                                 std::generic_category().message(error), todo));
}

OpenedFile OpenIfRegular(const std::string& path, int flags) {
  const auto look = (flags & O_NOFOLLOW) != 0 ? &::lstat : &::stat;
  struct stat info = {};
  // Checked before opening, because opening some devices has effects.
  if (look(path.c_str(), &info) == 0) {
    if (!S_ISREG(info.st_mode)) return {.mode = info.st_mode};
  } else if (errno != ENOENT || (flags & O_CREAT) == 0) {
    return {.error = errno};
  }
  UniqueFd fd(OpenWithoutWaiting(path, flags | O_CLOEXEC | O_NOCTTY));
  int error = errno;
  // Checked again, because the file may have been replaced meanwhile.
  const bool known = (fd.ok() ? ::fstat(fd.get(), &info) : look(path.c_str(), &info)) == 0;
  const bool regular = known && S_ISREG(info.st_mode);
  if (fd.ok() && regular) return {.fd = std::move(fd)};
  if (fd.ok()) error = errno;
  if (known && !regular) return {.mode = info.st_mode};
  return {.error = error};
}

absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path) {
  return OpenRegular(path, O_RDONLY);
}

absl::StatusOr<UniqueFd> OpenToAppend(const std::string& path) {
  return OpenRegular(path, O_WRONLY | O_APPEND | O_CREAT);
}

absl::Status WriteAll(int fd, std::string_view bytes, std::string_view path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("cannot write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

}  // namespace cohort
