#include "common/rpc/stream/connection_acceptor.h"

#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr std::chrono::seconds kFirstByte{10};  // longest time until the first byte of a connection
constexpr int kRetryMs = 100;                   // while the process has no more descriptors
constexpr size_t kMostSilent = 1024;

constexpr unsigned char kTlsHandshake = 0x16;  // the first record of TLS (RFC 8446, 5.1)
constexpr unsigned char kHttp2 = 'P';          // "PRI * HTTP/2.0" (RFC 9113, 3.4)

std::string PeerOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return fmt::format("{}:{}:{}", address.ss_family == AF_INET6 ? "ipv6" : "ipv4", host, port);
}

}  // namespace

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

void ConnectionAcceptor::AddUnix(UniqueFd listener, std::string path, Takers takers) {
  listeners_.push_back({std::move(listener), std::move(path), std::move(takers)});
}

void ConnectionAcceptor::AddTcp(UniqueFd listener, Takers takers) {
  listeners_.push_back({std::move(listener), "", std::move(takers)});
}

void ConnectionAcceptor::Start() {
  if (listeners_.empty()) return;
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "accept");
    ThreadMain();
  });
}

void ConnectionAcceptor::Stop() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
    thread_.join();
  }
  for (const Listener& listener : listeners_) {
    if (!listener.path.empty()) unlink(listener.path.c_str());
  }
  listeners_.clear();
}

// The descriptors: the event that ends the thread, the listeners, the silent connections.
void ConnectionAcceptor::ThreadMain() {
  std::vector<pollfd> polled;
  while (true) {
    polled.assign(1, {wake_.get(), POLLIN, 0});
    for (const Listener& listener : listeners_) {
      polled.push_back({listener.fd.get(), static_cast<short>(no_descriptors_ ? 0 : POLLIN), 0});
    }
    for (const Silent& silent : silent_) polled.push_back({silent.fd.get(), POLLIN, 0});
    const int ready = poll(polled.data(), polled.size(), NextTimeout());
    if (polled[0].revents != 0) break;
    no_descriptors_ = false;
    const Clock::time_point now = Clock::now();
    size_t next = 1 + listeners_.size();
    std::erase_if(silent_, [&](Silent& silent) {
      const bool readable = ready > 0 && polled[next].revents != 0;
      ++next;
      return readable ? Sort(&silent) : now >= silent.deadline;
    });
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (ready > 0 && polled[1 + i].revents != 0) Accept(&listeners_[i]);
    }
  }
  silent_.clear();
}

int ConnectionAcceptor::NextTimeout() const {
  if (no_descriptors_) return kRetryMs;
  if (silent_.empty()) return -1;
  const auto wait = silent_.front().deadline - Clock::now();  // the oldest one
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::max<int64_t>(0, ms + 1));
}

void ConnectionAcceptor::Accept(Listener* listener) {
  UniqueFd connection(accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.ok()) {
    no_descriptors_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
    return;
  }
  if (!listener->path.empty() && !HasPeerOfUser(*listener, connection)) return;
  const Takers& takers = listener->takers;
  if (takers.tls == nullptr && takers.http2 == nullptr && takers.socket == nullptr) {
    return takers.other(std::move(connection), listener->fd.get());
  }
  if (silent_.size() >= kMostSilent) silent_.erase(silent_.begin());
  silent_.push_back({std::move(connection), listener, Clock::now() + kFirstByte});
}

// Counts and logs a peer that belongs to another user.
bool ConnectionAcceptor::HasPeerOfUser(const Listener& listener, const UniqueFd& connection) const {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  const bool known = getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (known && (peer.uid == geteuid() || peer.uid == 0)) return true;
  refusals_
      ->Add(RefusalReason::kUser, {"unix:" + listener.path, fmt::format("user {}", peer.uid), ""},
            PermissionDenied("process {}: the peer of a unix socket must belong to the user {} of "
                             "this task",
                             peer.pid, geteuid()))
      .IgnoreError();
  return false;
}

bool ConnectionAcceptor::Sort(Silent* silent) {
  unsigned char first = 0;
  const ssize_t got = recv(silent->fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) return true;  // a probe, which only connects
  const Listener& listener = *silent->listener;
  const Take* take = &listener.takers.other;
  if (first == kTlsHandshake && listener.takers.tls) take = &listener.takers.tls;
  if (first == kHttp2 && listener.takers.http2) take = &listener.takers.http2;
  if (first == kSocketByte && listener.takers.socket) take = &listener.takers.socket;
  if (*take) {
    (*take)(std::move(silent->fd), listener.fd.get());
    return true;
  }
  refusals_
      ->Add(RefusalReason::kPlaintext, {PeerOf(silent->fd.get()), "", ""},
            PermissionDenied("the peer speaks neither TLS nor HTTP/2"))
      .IgnoreError();
  return true;
}

}  // namespace cohort
