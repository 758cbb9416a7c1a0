#include "common/report/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_CREAT | O_APPEND | O_RDWR | O_CLOEXEC, 0644);
  if (fd < 0) {
    return WithExitCode(FailedPrecondition("{} cannot be opened: {}", path, std::strerror(errno)),
                        ExitCode::kCantCreate);
  }
  return std::unique_ptr<AppendFile>(new AppendFile(path, fd));
}

AppendFile::~AppendFile() { close(fd_); }

absl::Status AppendFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const bool full = errno == ENOSPC || errno == EDQUOT;
      return WithExitCode(
          MakeStatus(full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kUnavailable,
                     "{} cannot be written: {}", path_, std::strerror(errno)),
          ExitCode::kIo);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

bool AppendFile::ends_with_newline() const {
  const off_t size = lseek(fd_, 0, SEEK_END);
  char last = '\n';
  return size <= 0 || pread(fd_, &last, 1, size - 1) != 1 || last == '\n';
}

}  // namespace cohort
