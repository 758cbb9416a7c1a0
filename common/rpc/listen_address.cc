#include "common/rpc/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

class Socket {
 public:
  Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

absl::Status FromErrno(const std::string& address, int error) {
  const char* why = std::strerror(error);
  switch (error) {
    case EADDRINUSE:
      return AlreadyExists(
          "{} is taken: another process listens there; end it, or choose another address", address);
    case EACCES:
    case EPERM:
      return PermissionDenied("cannot listen on {}: {}", address, why);
    case EADDRNOTAVAIL:
      return InvalidArgument("cannot listen on {}: no interface of this host has that address",
                             address);
    default:
      return Unavailable("cannot listen on {}: {}", address, why);
  }
}

// gRPC replaces the file of a unix socket whoever listens on it, so a live one is found by dialling
// it.
absl::Status CheckUnix(const std::string& address) {
  std::string path = address.substr(5);
  if (path.starts_with("//")) path = path.substr(2);
  sockaddr_un name = {};
  if (path.empty()) return InvalidArgument("\"{}\" has no path", address);
  if (path.size() >= sizeof(name.sun_path)) {
    return InvalidArgument("the path of {} has {} characters; a unix socket takes at most {}",
                           address, path.size(), sizeof(name.sun_path) - 1);
  }
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), path.size());
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  if (access(directory.empty() ? "." : directory.c_str(), W_OK | X_OK) != 0) {
    return WithExitCode(
        InvalidArgument(
            "cannot listen on {}: its directory is not one that this process may write to: {}",
            address, std::strerror(errno)),
        ExitCode::kCantCreate);
  }
  Socket probe(AF_UNIX);
  if (connect(probe.fd(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) {
    return AlreadyExists(
        "{} is taken: another process listens there; end it, or choose another address", address);
  }
  if (errno != ENOENT && errno != ECONNREFUSED) {
    return AlreadyExists("cannot listen on {}: {}", address, std::strerror(errno));
  }
  return absl::OkStatus();
}

absl::Status CheckBind(const std::string& address, const addrinfo& info) {
  Socket probe(info.ai_family);
  // An address family that the kernel lacks is gRPC's to skip.
  if (probe.fd() < 0) return absl::OkStatus();
  const int on = 1;
  setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (info.ai_family == AF_INET6) {
    setsockopt(probe.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  }
  if (bind(probe.fd(), info.ai_addr, info.ai_addrlen) != 0 || listen(probe.fd(), 1) != 0) {
    return FromErrno(address, errno);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCanListen(const std::string& address) {
  if (address.starts_with("unix:")) return CheckUnix(address);
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return InvalidArgument("\"{}\" is no address to listen on: it should look like host:port",
                           address);
  }
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const std::string port = address.substr(colon + 1);
  const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list);
  if (error != 0) return InvalidArgument("cannot listen on {}: {}", address, gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    COHORT_RETURN_IF_ERROR(CheckBind(address, *info));
  }
  return absl::OkStatus();
}

}  // namespace cohort
