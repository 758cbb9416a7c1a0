#include "common/cluster/socket_directory.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "common/base/identity.h"
#include "common/base/open_file.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace cohort {
namespace {

constexpr time_t kLongestStart = 60;  // seconds

bool IsOwnDirectory(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

bool IsSocketName(std::string_view name) {
  return name.starts_with("ps-") && name.ends_with(".sock");
}

// Whether a socket can be made there: the file system may be full or read-only, or know of none.
absl::Status TrySocket(const std::string& directory) {
  const std::string path = fmt::format("{}/try-{:016x}", directory, RandomIncarnation());
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool made =
      fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
  const int error = errno;
  if (made) unlink(path.c_str());
  if (fd >= 0) close(fd);
  return made ? absl::OkStatus() : ErrnoStatus("cannot make a socket in", directory, error);
}

bool NobodyListens(const sockaddr_un& name) {
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return probe.ok() &&
         connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0 &&
         errno == ECONNREFUSED;
}

}  // namespace

absl::StatusOr<std::string> OwnSocketDirectory(const SocketDirectoryRoots& roots) {
  // A root shell may have inherited another user's runtime directory.
  const bool has_runtime_dir =
      roots.runtime_dir.starts_with('/') && IsOwnDirectory(roots.runtime_dir);
  const std::string path = has_runtime_dir
                               ? roots.runtime_dir + "/cohort"
                               : fmt::format("{}/cohort-{}", roots.temporary, geteuid());
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return ErrnoStatus("cannot make a directory for sockets:", path, errno);
  }
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus("cannot look at", path, errno);
  if (!S_ISDIR(info.st_mode)) return FailedPrecondition("{} is not a directory", path);
  if (info.st_uid != geteuid()) {
    return FailedPrecondition("{} belongs to the user {}", path, info.st_uid);
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return FailedPrecondition("{} is open to other users", path);
  }
  if (path.size() > kLongestSocketDirectory) {
    return FailedPrecondition("{} is too long for the name of a socket", path);
  }
  if (path.find('%') != std::string::npos) {
    return FailedPrecondition("{} has a % in it, which gRPC takes for the start of a code", path);
  }
  COHORT_RETURN_IF_ERROR(TrySocket(path));
  return path;
}

std::string SocketPath(const std::string& directory, uint32_t ps, uint64_t incarnation) {
  return fmt::format("{}/ps-{}-{:016x}.sock", directory, ps, incarnation);
}

void RemoveDeadSockets(const std::string& directory, time_t now) {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(directory.c_str()), closedir);
  if (entries == nullptr) return;
  while (const dirent* entry = readdir(entries.get())) {
    if (!IsSocketName(entry->d_name)) continue;
    const std::string path = directory + "/" + entry->d_name;
    sockaddr_un name = {};
    struct stat info = {};
    if (path.size() >= sizeof(name.sun_path) || lstat(path.c_str(), &info) != 0 ||
        !S_ISSOCK(info.st_mode) || info.st_ctime + kLongestStart > now) {
      continue;
    }
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.c_str(), path.size());
    if (NobodyListens(name)) unlink(path.c_str());
  }
}

}  // namespace cohort
