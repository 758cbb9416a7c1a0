#ifndef COHORT_COMMON_OS_OPEN_FILE_H_
#define COHORT_COMMON_OS_OPEN_FILE_H_

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/base/unique_fd.h"

namespace cohort {

// A Status of `errno`, "what path: reason": NotFound (ENOENT), AlreadyExists, PermissionDenied,
// ResourceExhausted (no space, a quota or a limit on file sizes), else Unavailable.
absl::Status ErrnoStatus(std::string_view what, std::string_view path, int error);

// Whether errno says that there is no space (or no more for this user, or for one file).
bool IsDiskFull(int error);

// "a directory", "a FIFO", ...: what is no regular file, for people. Of a stat's st_mode.
std::string_view FileTypeName(mode_t mode);

// What became of opening a regular file.
struct OpenedFile {
  UniqueFd fd;
  int error = 0;    // errno, where it could not be opened
  mode_t mode = 0;  // st_mode of what has the name, where that is no regular file
};

// Opens a regular file, with open(2)'s flags. Waits for nobody but the holder of a lease of the
// file: a FIFO, a device or a socket that stands in a file's place, which may never begin or never
// end, is not opened, as a directory is not; with O_NOFOLLOW a symbolic link neither.
OpenedFile OpenIfRegular(const std::string& path, int flags);

// A regular file, open to read. Errors: DataLoss "PATH is a FIFO, not a regular file";
// ErrnoStatus's.
absl::StatusOr<UniqueFd> OpenRegularFile(const std::string& path);

// The same, open to write at its end, and made where nothing has its name.
absl::StatusOr<UniqueFd> OpenToAppend(const std::string& path);

}  // namespace cohort

#endif  // COHORT_COMMON_OS_OPEN_FILE_H_
