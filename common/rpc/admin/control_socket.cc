#include "common/rpc/admin/control_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "common/base/status.h"
#include "common/os/open_file.h"

namespace cohort {
namespace {

constexpr int kBacklog = 16;

// The address of a file in an open directory. `name` is short.
sockaddr_un AddressIn(int directory, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory, name);
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

// A directory that only this user can enter.
absl::StatusOr<UniqueFd> OpenOwnDirectory(const std::string& path) {
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return ErrnoStatus("cannot make the directory", path, errno);
  }
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) return ErrnoStatus("cannot stat", path, errno);
  if (!S_ISDIR(info.st_mode)) return FailedPrecondition("{} is not a directory", path);
  if (info.st_uid != geteuid()) {
    return FailedPrecondition("{} belongs to the user {}", path, info.st_uid);
  }
  const bool open_to_others = (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
  if (open_to_others && chmod(path.c_str(), S_IRWXU) != 0) {
    return ErrnoStatus("cannot close to other users:", path, errno);
  }
  UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus("cannot open the directory", path, errno);
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlSocket>> ControlSocket::Listen(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string name = file.filename();
  COHORT_ASSIGN_OR_RETURN(UniqueFd directory, OpenOwnDirectory(file.parent_path()));
  // Made under another name and renamed, so that the name always leads to a socket that listens.
  const std::string made = fmt::format("{}.{}", name, getpid());
  const sockaddr_un address = AddressIn(directory.get(), made);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return ErrnoStatus("cannot make a socket for", path, errno);
  unlinkat(directory.get(), made.c_str(), 0);
  struct stat info = {};
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus("cannot make the socket", path, errno);
  }
  if (fchmodat(directory.get(), made.c_str(), S_IRUSR | S_IWUSR, 0) != 0 ||
      listen(fd.get(), kBacklog) != 0 ||
      fstatat(directory.get(), made.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      renameat(directory.get(), made.c_str(), directory.get(), name.c_str()) != 0) {
    const int error = errno;
    unlinkat(directory.get(), made.c_str(), 0);
    return ErrnoStatus("cannot listen on", path, error);
  }
  return std::unique_ptr<ControlSocket>(
      new ControlSocket(std::move(directory), name, std::move(fd), info.st_ino));
}

bool ControlSocket::IsServed(const std::string& path) {
  const std::filesystem::path file(path);
  const UniqueFd directory(open(file.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!directory.ok() || !fd.ok()) return false;
  const sockaddr_un address = AddressIn(directory.get(), file.filename());
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

ControlSocket::~ControlSocket() {
  struct stat info = {};
  if (fstatat(directory_.get(), name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      info.st_ino == inode_) {
    unlinkat(directory_.get(), name_.c_str(), 0);
  }
}

}  // namespace cohort
