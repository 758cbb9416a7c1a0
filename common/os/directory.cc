#include "common/os/directory.h"

#include <linux/magic.h>
#include <stdlib.h>
#include <sys/statfs.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/os/open_file.h"

namespace cohort {

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path, error)) return absl::OkStatus();
  if (IsDiskFull(error.value())) {
    return WithExitCode(ErrnoStatus("cannot make the directory", path, error.value()),
                        ExitCode::kIo);
  }
  return WithExitCode(FailedPrecondition("the directory \"{}\" cannot be created: {}", path,
                                         error ? error.message() : "something else has this name"),
                      ExitCode::kCantCreate);
}

absl::StatusOr<std::string> MakeTemporaryDirectory(const std::string& name,
                                                   const std::string& parent) {
  std::error_code error;
  const std::filesystem::path in =
      parent.empty() ? std::filesystem::temp_directory_path(error) : std::filesystem::path(parent);
  std::string path = (in / (name + ".XXXXXX")).string();
  if (!error && mkdtemp(path.data()) != nullptr) return path;
  return WithExitCode(FailedPrecondition("no temporary directory can be created in {}: {}",
                                         parent.empty() ? "$TMPDIR" : parent,
                                         error ? error.message() : std::strerror(errno)),
                      ExitCode::kCantCreate);
}

bool IsInMemory(const std::string& path) {
  struct statfs info = {};
  const bool known = ::statfs(path.c_str(), &info) == 0;
  return known && (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC);
}

}  // namespace cohort
