#ifndef COHORT_COMMON_OS_OPEN_FILE_H_
#define COHORT_COMMON_OS_OPEN_FILE_H_

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/base/unique_fd.h"

namespace cohort {

// A status for `errno` with the message "what path: reason": NotFound (ENOENT), AlreadyExists,
// PermissionDenied, ResourceExhausted (no space, a quota or a limit on file sizes), else
// Unavailable.
absl::Status ErrnoStatus(std::string_view what, std::string_view path, int error);

// True if errno means that no space is left: on the disk, in this user's quota, or for one file.
bool IsDiskFull(int error);

// "a directory", "a FIFO", ...: the type of what is not a regular file, for messages. `mode` is
// st_mode.
std::string_view FileTypeName(mode_t mode);

// The result of opening a regular file.
struct OpenedFile {
  UniqueFd fd;
  int error = 0;    // errno, if it could not be opened
  mode_t mode = 0;  // st_mode of what has the name, if it is not a regular file
};

// Opens a regular file with open(2)'s flags. It does not open a FIFO, a device, a socket or a
// directory: opening or reading one may block forever. With O_NOFOLLOW it does not open a symbolic
// link either. It blocks only while another process holds a lease on the file.
OpenedFile OpenIfRegular(const std::string& path, int flags);

// Opens a regular file for reading. Errors: DataLoss "PATH is a FIFO, not a regular file"; those of
// ErrnoStatus.
absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path);

// Opens a regular file for appending and creates it if the name is free. Errors: the same.
absl::StatusOr<UniqueFd> OpenToAppend(const std::string& path);

// Writes all bytes at the position of the file. `path` is for the message. Errors: those of
// ErrnoStatus.
absl::Status WriteAll(int fd, std::string_view bytes, std::string_view path);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_OPEN_FILE_H_
