#include "common/os/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

absl::Status CannotRead(const std::string& path) {
  return FailedPrecondition("{}: cannot be read ({})", path,
                            std::generic_category().message(errno));
}

absl::Status Check(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    return FailedPrecondition("{}: is {}, not a regular file", path, FileTypeName(info.st_mode));
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return FailedPrecondition(
        "{}: belongs to the user {}, who can read it; it must belong to the "
        "user {} of this process",
        path, info.st_uid, geteuid());
  }
  const mode_t forbidden = info.st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
  if ((info.st_mode & forbidden) == 0) return absl::OkStatus();
  return FailedPrecondition(
      "{}: has the mode {:04o}, so that other users can read or change it; "
      "run `chmod 600 {}`",
      path, info.st_mode & 07777, path);
}

}  // namespace

absl::Status CheckPrivateFile(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return CannotRead(path);
  return Check(path, info);
}

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path, size_t most_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  if (!fd.ok() || fstat(fd.get(), &info) != 0) return CannotRead(path);
  COHORT_RETURN_IF_ERROR(Check(path, info));
  std::string text(most_bytes + 1, '\0');
  size_t filled = 0;
  ssize_t got = 0;
  while (filled < text.size() &&
         (got = read(fd.get(), text.data() + filled, text.size() - filled)) > 0) {
    filled += static_cast<size_t>(got);
  }
  if (got < 0) return CannotRead(path);
  if (filled > most_bytes) {
    return FailedPrecondition("{}: has more than {} bytes", path, most_bytes);
  }
  text.resize(filled);
  return text;
}

absl::Status CreatePrivateFile(const std::string& path, std::string_view contents) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.ok()) return ErrnoStatus("cannot create", path, errno);
  // Secrets are shorter than what one call writes.
  const ssize_t written = write(fd.get(), contents.data(), contents.size());
  if (written == static_cast<ssize_t>(contents.size()) && fd.Close() == 0) return absl::OkStatus();
  const int error = written < 0 ? errno : ENOSPC;
  unlink(path.c_str());
  return ErrnoStatus("cannot write", path, error);
}

}  // namespace cohort
