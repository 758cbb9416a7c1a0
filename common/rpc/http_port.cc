#include "common/rpc/http_port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/rpc/listen_address.h"

namespace cohort {
namespace {

constexpr size_t kMostHead = 16 << 10;  // bytes of a request's head
constexpr int kBacklog = 128;
constexpr Duration kPause = std::chrono::milliseconds(100);  // where there are no descriptors

std::string_view ReasonOf(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

std::string Text(const HttpReply& reply, bool with_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n"
      "Connection: close\r\n\r\n{}",
      reply.code, ReasonOf(reply.code), reply.type, reply.body.size(),
      with_body ? std::string_view(reply.body) : std::string_view());
}

// Whether the empty line that ends the head is there.
bool IsWhole(std::string_view head) {
  return head.find("\r\n\r\n") != head.npos || head.find("\n\n") != head.npos;
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

int PortOf(int fd) {
  sockaddr_storage name = {};
  socklen_t size = sizeof(name);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  // Both have the port in the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

// A socket that listens there; -1 where none of the address's interfaces can be listened on.
int ListenOn(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* list = nullptr;
  const std::string port = address.substr(colon + 1);
  if (getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list) != 0) {
    return -1;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  for (const addrinfo* info = list; info != nullptr; info = info->ai_next) {
    const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd >= 0 && bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) {
      return fd;
    }
    if (fd >= 0) close(fd);
  }
  return -1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpPort>> HttpPort::Listen(Options options) {
  COHORT_RETURN_IF_ERROR(CheckCanListen(options.address));
  const int listener = ListenOn(options.address);
  const int wake = listener < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    if (listener >= 0) close(listener);
    COHORT_RETURN_IF_ERROR(CheckCanListen(options.address));  // taken between the check and now
    return Unavailable("cannot listen on {}", options.address);
  }
  return std::unique_ptr<HttpPort>(
      new HttpPort(std::move(options), listener, wake, PortOf(listener)));
}

HttpPort::HttpPort(Options options, int listener, int wake, int port)
    : options_(std::move(options)), listener_(listener), wake_(wake), port_(port), thread_([this] {
        Run();
      }) {
  pthread_setname_np(thread_.native_handle(), "http");
}

HttpPort::~HttpPort() {
  eventfd_write(wake_, 1);
  thread_.join();
  for (const Connection& connection : connections_) close(connection.fd);
  close(listener_);
  close(wake_);
}

void HttpPort::Run() {
  while (Wait()) {
    const TimePoint now = clock_.Now();
    for (auto it = connections_.begin(); it != connections_.end();) {
      if (Serve(&*it) && now < it->deadline) {
        ++it;
      } else {
        close(it->fd);
        it = connections_.erase(it);
      }
    }
    if (can_accept_) Accept();
  }
}

bool HttpPort::Wait() {
  const TimePoint now = clock_.Now();
  const bool paused = now < accept_after_;
  TimePoint next = paused ? accept_after_ : TimePoint::max();
  std::vector<pollfd> polled = {{wake_, POLLIN, 0}, {paused ? -1 : listener_, POLLIN, 0}};
  for (const Connection& connection : connections_) {
    const bool writes = connection.state == State::kWriting;
    polled.push_back({connection.fd, static_cast<short>(writes ? POLLOUT : POLLIN), 0});
    next = std::min(next, connection.deadline);
  }
  int timeout_ms = -1;
  if (next != TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    timeout_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
  }
  poll(polled.data(), polled.size(), timeout_ms);
  can_accept_ = polled[1].revents != 0;
  return polled[0].revents == 0;
}

void HttpPort::Accept() {
  for (int i = 0; i < kBacklog; ++i) {  // then the others have their turn
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE)) accept_after_ = clock_.Now() + kPause;
    if (fd < 0) return;
    if (connections_.size() >= options_.most_connections) {
      close(connections_.front().fd);
      connections_.pop_front();
    }
    connections_.push_back({.fd = fd, .deadline = clock_.Now() + options_.timeout});
    // Most requests are there already.
    if (!Serve(&connections_.back())) {
      close(fd);
      connections_.pop_back();
    }
  }
}

bool HttpPort::Serve(Connection* connection) {
  return connection->state == State::kWriting ? Write(connection) : Read(connection);
}

bool HttpPort::Read(Connection* connection) {
  char buffer[4096];
  const ssize_t got = recv(connection->fd, buffer, sizeof(buffer), 0);
  if (got < 0) return WouldBlock(errno);
  if (got == 0) return false;
  if (connection->state == State::kDraining) return true;
  connection->in.append(buffer, static_cast<size_t>(got));
  if (!IsWhole(connection->in) && connection->in.size() < kMostHead) return true;
  connection->out = Answer(connection->in);
  connection->state = State::kWriting;
  connection->deadline = clock_.Now() + options_.timeout;
  return Write(connection);
}

bool HttpPort::Write(Connection* connection) {
  while (connection->sent < connection->out.size()) {
    const ssize_t sent = send(connection->fd, connection->out.data() + connection->sent,
                              connection->out.size() - connection->sent, MSG_NOSIGNAL);
    if (sent < 0) return WouldBlock(errno);
    connection->sent += static_cast<size_t>(sent);
  }
  shutdown(connection->fd, SHUT_WR);
  connection->state = State::kDraining;
  return true;
}

std::string HttpPort::Answer(const std::string& head) const {
  if (!IsWhole(head)) return Text({.code = 431, .body = "the request is too long\n"}, true);
  // "GET /metrics?x=1 HTTP/1.1"
  const std::string_view line = std::string_view(head).substr(0, head.find_first_of("\r\n"));
  const size_t first = line.find(' ');
  const size_t second = line.find(' ', first == line.npos ? first : first + 1);
  if (second == line.npos || !line.substr(second + 1).starts_with("HTTP/1.")) {
    return Text({.code = 400, .body = "this is no HTTP/1.1\n"}, true);
  }
  HttpRequest request{.method = std::string(line.substr(0, first)),
                      .path = std::string(line.substr(first + 1, second - first - 1))};
  request.path.resize(std::min(request.path.size(), request.path.find('?')));
  return Text(options_.answer(request), request.method != "HEAD");
}

}  // namespace cohort
