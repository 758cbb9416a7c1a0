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
#include <regex>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/os/identity.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

constexpr time_t kLongestStart = 60;  // seconds

// True if the directory belongs to this user and no other user may write to it.
bool IsOwnDirectory(const std::string& path) {
  struct stat info = {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// The names that SocketPath makes: "ps-3-00000000000000ab.sock".
bool IsSocketName(const std::string& name) {
  static const std::regex kName("ps-[0-9]+-[0-9a-f]{16}\\.sock");
  return std::regex_match(name, kName);
}

// Creates a socket there to see whether that works: the file system may be full, read-only, or
// without sockets.
absl::Status TrySocket(const std::string& directory) {
  const std::string path = SocketPath(directory, /*ps=*/0, RandomIncarnation());
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size());
  const UniqueFd trial(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!trial.ok() ||
      bind(trial.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) != 0) {
    return ErrnoStatus("cannot make a socket in", directory, errno);
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

// Somebody who makes the directory first could read and replace the sockets in it.
absl::Status CheckOwn(const std::string& path, const struct stat& info) {
  std::string why;
  if (!S_ISDIR(info.st_mode)) {
    why = "is not a directory";
  } else if (info.st_uid != geteuid()) {
    why = fmt::format("belongs to the user {}", info.st_uid);
  } else if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    why = fmt::format("is open to other users (mode {:04o})", info.st_mode & 07777);
  } else {
    return absl::OkStatus();
  }
  return WithExitCode(
      FailedPrecondition("{} {}, but it is where the tasks of the user {} meet: remove it, or name "
                         "another directory (--unix_socket_dir DIR; none: TCP only)",
                         path, why, geteuid()),
      ExitCode::kNoPermission);
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
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus("cannot stat", path, errno);
  COHORT_RETURN_IF_ERROR(CheckOwn(path, info));
  if (path.size() > kLongestSocketDirectory) {
    return FailedPrecondition("{} is too long for the name of a socket", path);
  }
  if (path.find('%') != std::string::npos) {
    return FailedPrecondition("{} contains a %, which gRPC reads as an escape", path);
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
