#include "deploy/cluster_check/tcp_probe.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/unique_fd.h"

namespace cohort {
namespace {

Reach FromError(int error) {
  switch (error) {
    case 0:
      return {v1::REACHED, ""};
    case ECONNREFUSED:
      return {v1::REFUSED, "connection refused"};
    case ETIMEDOUT:
      return {v1::TIMED_OUT, "timed out"};
    case EHOSTUNREACH:
    case ENETUNREACH:
      return {v1::NO_ROUTE, std::strerror(error)};
    default:
      return {v1::CONNECT_FAILED, std::strerror(error)};
  }
}

int ConnectError(const addrinfo& address, std::chrono::milliseconds limit) {
  const UniqueFd fd(
      socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!fd.ok()) return errno;
  if (connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waited = {fd.get(), POLLOUT, 0};
  const int ready = poll(&waited, 1, static_cast<int>(limit.count()));
  if (ready < 0) return errno;
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof(error);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

}  // namespace

Reach ProbeTcp(const Address& address, std::chrono::milliseconds limit) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int unknown =
      getaddrinfo(address.host.c_str(), fmt::format("{}", address.port).c_str(), &hints, &list);
  if (unknown != 0) return {v1::UNKNOWN_HOST, gai_strerror(unknown)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(list, freeaddrinfo);
  Reach reach;
  for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
    reach = FromError(ConnectError(*a, limit));
    if (reach.outcome == v1::REACHED) break;
  }
  return reach;
}

}  // namespace cohort
