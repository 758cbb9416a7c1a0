#include "common/rpc/control/control_socket.h"

#include <fcntl.h>
#include <poll.h>
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

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr int kBacklog = 16;  // connections that wait for a thread

struct SplitPath {
  std::string directory;
  std::string name;
};

SplitPath Split(const std::string& path) {
  const std::filesystem::path p(path);
  const std::string directory = p.parent_path().string();
  return {directory.empty() ? "." : directory, p.filename().string()};
}

// The address of a file in an open directory. `name` is short.
sockaddr_un AddressIn(int directory, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory, name);
  std::memcpy(address.sun_path, path.c_str(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

absl::StatusOr<UniqueFd> OpenDirectory(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) return ErrnoStatus("cannot open the directory", path, errno);
  return fd;
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
  return OpenDirectory(path);
}

UniqueFd NewSocket() { return UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// Waits until `fd` has one of `events`. OK after an error of the descriptor: the next call reports
// it.
absl::Status AwaitEvents(int fd, int16_t events, TimePoint deadline, int cancel) {
  while (true) {
    int timeout_ms = -1;
    if (deadline != TimePoint::max()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return DeadlineExceeded("the peer did not answer in time");
      timeout_ms = static_cast<int>(std::min<int64_t>(left.count(), 60'000));
    }
    pollfd fds[] = {{fd, events, 0}, {cancel, POLLIN, 0}};
    if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR) {
      return ErrnoStatus("cannot wait for", "a connection", errno);
    }
    if (fds[1].revents != 0) return Cancelled("the server is ending");
    if (fds[0].revents != 0) return absl::OkStatus();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlSocket>> ControlSocket::Listen(const std::string& path) {
  const auto [directory_path, name] = Split(path);
  COHORT_ASSIGN_OR_RETURN(UniqueFd directory, OpenOwnDirectory(directory_path));
  // Made under another name and renamed, so that the name always leads to a socket that listens.
  const std::string made = fmt::format("{}.{}", name, getpid());
  const sockaddr_un address = AddressIn(directory.get(), made);
  UniqueFd fd = NewSocket();
  if (!fd.ok()) return ErrnoStatus("cannot make a socket for", path, errno);
  unlinkat(directory.get(), made.c_str(), 0);
  struct stat info = {};
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus("cannot make the socket", path, errno);
  }
  if (fchmodat(directory.get(), made.c_str(), S_IRUSR | S_IWUSR, 0) != 0 ||
      listen(fd.get(), kBacklog) != 0 ||
      fstatat(directory.get(), made.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0 ||
      renameat(directory.get(), made.c_str(), directory.get(), name.c_str()) != 0) {
    const int error = errno;
    unlinkat(directory.get(), made.c_str(), 0);
    return ErrnoStatus("cannot listen on", path, error);
  }
  return std::unique_ptr<ControlSocket>(
      new ControlSocket(std::move(directory), name, std::move(fd), info.st_ino));
}

ControlSocket::~ControlSocket() {
  struct stat info = {};
  if (fstatat(directory_.get(), name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      info.st_ino == inode_) {
    unlinkat(directory_.get(), name_.c_str(), 0);
  }
}

absl::StatusOr<UniqueFd> ConnectToControlSocket(const std::string& path) {
  const auto [directory_path, name] = Split(path);
  COHORT_ASSIGN_OR_RETURN(const UniqueFd directory, OpenDirectory(directory_path));
  const sockaddr_un address = AddressIn(directory.get(), name);
  UniqueFd fd = NewSocket();
  if (!fd.ok()) return ErrnoStatus("cannot make a socket for", path, errno);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus("cannot connect to", path, errno);
  }
  fcntl(fd.get(), F_SETFL, O_NONBLOCK);
  return fd;
}

absl::StatusOr<uid_t> PeerUser(int fd) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return ErrnoStatus("no credentials of", "the peer", errno);
  }
  return peer.uid;
}

absl::StatusOr<std::string> ReadControlLine(int fd, TimePoint deadline, int cancel) {
  std::string line;
  char buffer[4096];
  while (line.size() <= kLongestLine) {
    COHORT_RETURN_IF_ERROR(AwaitEvents(fd, POLLIN, deadline, cancel));
    const ssize_t count = recv(fd, buffer, sizeof(buffer), 0);
    if (count == 0) return Unavailable("the peer closed the connection");
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return ErrnoStatus("cannot read from", "the connection", errno);
    }
    const char* const end = std::find(buffer, buffer + count, '\n');
    line.append(buffer, static_cast<size_t>(end - buffer));
    if (end != buffer + count) return line;
  }
  return InvalidArgument("a message of more than {} bytes", kLongestLine);
}

absl::Status WriteControlLine(int fd, std::string_view line, TimePoint deadline, int cancel) {
  const std::string bytes = std::string(line) + "\n";
  size_t sent = 0;
  while (sent < bytes.size()) {
    COHORT_RETURN_IF_ERROR(AwaitEvents(fd, POLLOUT, deadline, cancel));
    const ssize_t count = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR) continue;
      return ErrnoStatus("cannot write to", "the connection", errno);
    }
    sent += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

}  // namespace cohort
