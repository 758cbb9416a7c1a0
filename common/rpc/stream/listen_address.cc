#include "common/rpc/stream/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/status.h"

namespace cohort {
namespace {

UniqueFd NewSocket(int family, int flags = 0) {
  return UniqueFd(socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

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

// gRPC replaces the file of a unix socket even if another process listens on it. So this dials the
// socket to find a live listener.
absl::Status CheckUnix(const std::string& address) {
  const std::string path = UnixPath(address);
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
        InvalidArgument("cannot listen on {}: this process cannot write to its directory: {}",
                        address, std::strerror(errno)),
        ExitCode::kCantCreate);
  }
  const UniqueFd probe = NewSocket(AF_UNIX);
  if (connect(probe.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0) {
    return AlreadyExists(
        "{} is taken: another process listens there; end it, or choose another address", address);
  }
  if (errno != ENOENT && errno != ECONNREFUSED) {
    return AlreadyExists("cannot listen on {}: {}", address, std::strerror(errno));
  }
  return absl::OkStatus();
}

// False if the kernel lacks the address family. `both`: an IPv6 socket takes IPv4 too.
absl::StatusOr<bool> Bind(const std::string& address, const addrinfo& info, const UniqueFd& socket,
                          bool both = false) {
  if (!socket.ok()) return false;
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (info.ai_family == AF_INET6) {
    const int only = both ? 0 : 1;
    setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  if (bind(socket.get(), info.ai_addr, info.ai_addrlen) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return FromErrno(address, errno);
  }
  return true;
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Resolves "host:port".
absl::StatusOr<AddressList> Resolve(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) {
    return InvalidArgument("\"{}\" is not an address to listen on: expected host:port", address);
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
  return AddressList(list, freeaddrinfo);
}

bool IsWildcard(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return host.empty() || host == "0.0.0.0" || host == "[::]";
}

int PortOf(const UniqueFd& socket) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size);
  return ntohs(name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&name)->sin6_port
                                          : reinterpret_cast<sockaddr_in*>(&name)->sin_port);
}

void SetPort(addrinfo* info, int port) {
  const auto number = htons(static_cast<uint16_t>(port));
  if (info->ai_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(info->ai_addr)->sin6_port = number;
  } else {
    reinterpret_cast<sockaddr_in*>(info->ai_addr)->sin_port = number;
  }
}

}  // namespace

absl::Status CheckCanListen(const std::string& address) {
  if (address.starts_with("unix:")) return CheckUnix(address);
  COHORT_ASSIGN_OR_RETURN(const AddressList list, Resolve(address));
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    // gRPC skips an address family that the kernel lacks.
    COHORT_RETURN_IF_ERROR(Bind(address, *info, NewSocket(info->ai_family)).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ListenOn(const std::string& address) {
  COHORT_ASSIGN_OR_RETURN(const AddressList list, Resolve(address));
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    UniqueFd socket = NewSocket(info->ai_family, SOCK_NONBLOCK);
    COHORT_ASSIGN_OR_RETURN(const bool bound, Bind(address, *info, socket));
    if (bound) return socket;
  }
  return Unavailable("cannot listen on {}: this host supports no address family of it", address);
}

absl::StatusOr<std::vector<UniqueFd>> ListenOnAll(const std::string& address, int* port) {
  const bool wildcard = IsWildcard(address);
  const std::string port_text = address.substr(std::min(address.rfind(':'), address.size()));
  COHORT_ASSIGN_OR_RETURN(const AddressList list, Resolve(wildcard ? "[::]" + port_text : address));
  std::vector<UniqueFd> sockets;
  for (addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
    UniqueFd socket = NewSocket(info->ai_family, SOCK_NONBLOCK);
    if (!sockets.empty()) SetPort(info, *port);
    COHORT_ASSIGN_OR_RETURN(const bool bound, Bind(address, *info, socket, wildcard));
    if (!bound) continue;
    const int on = 1;
    setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    *port = PortOf(socket);
    sockets.push_back(std::move(socket));
  }
  if (!sockets.empty()) return sockets;
  // A kernel without IPv6.
  COHORT_ASSIGN_OR_RETURN(UniqueFd only, ListenOn(wildcard ? "0.0.0.0" + port_text : address));
  *port = PortOf(only);
  sockets.push_back(std::move(only));
  return sockets;
}

std::string UnixPath(const std::string& address) {
  const std::string path = address.substr(5);
  return path.starts_with("//") ? path.substr(2) : path;
}

absl::StatusOr<UniqueFd> ListenOnUnix(const std::string& path) {
  UniqueFd socket = NewSocket(AF_UNIX, SOCK_NONBLOCK);
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.c_str(), std::min(path.size(), sizeof(name.sun_path) - 1));
  unlink(path.c_str());
  if (!socket.ok() || bind(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return FromErrno("unix:" + path, errno);
  }
  return socket;
}

void SetUserTimeout(const UniqueFd& listener, std::chrono::milliseconds timeout) {
  const int ms = static_cast<int>(timeout.count());
  setsockopt(listener.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

}  // namespace cohort
