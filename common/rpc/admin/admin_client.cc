#include "common/rpc/admin/admin_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace cohort {
namespace {

constexpr size_t kMostBytes = size_t{16} << 20;

// Waits for `events` on a descriptor. False at the deadline.
bool WaitFor(int fd, short events, TimePoint deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd polled = {.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

absl::Status NoAnswer(const Address& address, std::string_view why) {
  return Unavailable("nothing answers on {}: {}", address.ToString(), why);
}

absl::StatusOr<UniqueFd> Connect(const Address& address, TimePoint deadline) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &list);
  if (error != 0) return NoAnswer(address, gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  std::string why = "the host has no address";
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    UniqueFd fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0) return fd;
    int code = errno;
    if (code == EINPROGRESS) {
      if (!WaitFor(fd.get(), POLLOUT, deadline)) return NoAnswer(address, "no answer in time");
      socklen_t size = sizeof(code);
      getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
      if (code == 0) return fd;
    }
    why = std::strerror(code);
  }
  return NoAnswer(address, why);
}

absl::Status Send(int fd, std::string_view request, TimePoint deadline) {
  while (!request.empty()) {
    const ssize_t sent = send(fd, request.data(), request.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      request.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EAGAIN || !WaitFor(fd, POLLOUT, deadline)) {
      return Unavailable("{}", std::strerror(errno));
    }
  }
  return absl::OkStatus();
}

// Reads until the other end closes the connection.
absl::StatusOr<std::string> ReadAll(int fd, TimePoint deadline) {
  std::string reply;
  char buffer[16384];
  while (true) {
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got == 0) return reply;
    if (got > 0) {
      reply.append(buffer, static_cast<size_t>(got));
      if (reply.size() > kMostBytes) return DataLoss("the answer has more than 16 MiB");
    } else if (errno != EAGAIN) {
      return Unavailable("{}", std::strerror(errno));
    } else if (!WaitFor(fd, POLLIN, deadline)) {
      return Unavailable("no answer in time");
    }
  }
}

}  // namespace

absl::StatusOr<std::string> GetAdminPage(const Address& address, const std::string& path,
                                         Duration timeout) {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout;
  COHORT_ASSIGN_OR_RETURN(const UniqueFd fd, Connect(address, deadline));
  const std::string request =
      fmt::format("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", path, address.ToString());
  const absl::Status sent = Send(fd.get(), request, deadline);
  if (!sent.ok()) return NoAnswer(address, std::string(sent.message()));
  const auto reply = ReadAll(fd.get(), deadline);
  if (!reply.ok()) return Annotate(reply.status(), address.ToString());
  // "HTTP/1.0 200 OK\r\n...\r\n\r\nbody"
  const size_t head_end = reply->find("\r\n\r\n");
  if (!reply->starts_with("HTTP/1.") || reply->size() < 12 || head_end == std::string::npos) {
    return DataLoss("{} is not an admin port: its answer is not HTTP", address.ToString());
  }
  const std::string code = reply->substr(9, 3);
  if (code == "404") return NotFound("{} has no page {}", address.ToString(), path);
  if (code != "200") return Unavailable("{} answers {} for {}", address.ToString(), code, path);
  return reply->substr(head_end + 4);
}

}  // namespace cohort
