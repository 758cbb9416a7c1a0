#include "common/report/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/os/open_file.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<AppendFile>> AppendFile::Open(const std::string& path) {
  OpenedFile opened = OpenIfRegular(path, O_CREAT | O_APPEND | O_RDWR);
  if (opened.fd.ok()) {
    return std::unique_ptr<AppendFile>(new AppendFile(path, std::move(opened.fd)));
  }
  if (IsDiskFull(opened.error)) {
    return WithExitCode(ErrnoStatus("cannot make", path, opened.error), ExitCode::kIo);
  }
  const absl::Status refused =
      opened.error != 0 ? FailedPrecondition("{} cannot be opened: {}", path,
                                             std::generic_category().message(opened.error))
                        : FailedPrecondition(
                              "{} is {}, not a regular file. Remove what stands there, or give "
                              "another directory",
                              path, FileTypeName(opened.mode));
  return WithExitCode(refused, ExitCode::kCantCreate);
}

absl::Status AppendFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      return WithExitCode(ErrnoStatus("cannot write", path_, errno), ExitCode::kIo);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

void AppendFile::Truncate(int64_t size) {
  [[maybe_unused]] const int ignored = ftruncate(fd_.get(), size);
}

bool AppendFile::ends_with_newline() const {
  const off_t size = lseek(fd_.get(), 0, SEEK_END);
  char last = '\n';
  return size <= 0 || pread(fd_.get(), &last, 1, size - 1) != 1 || last == '\n';
}

}  // namespace cohort
