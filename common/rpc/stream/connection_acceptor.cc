#include "common/rpc/stream/connection_acceptor.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/http2_goodbye.h"

namespace cohort {
namespace {

constexpr std::chrono::seconds kFirstBytes{10};  // longest time until the first bytes are there
constexpr std::chrono::seconds kGoodbye{1};      // longest time to read what a refused peer sends
constexpr size_t kMostDrained = 256 << 10;
constexpr int kRetryMs = 100;  // while the process has no more descriptors
constexpr size_t kMostWaiting = 1024;
constexpr int kMostAtOnce = 64;  // connections that are accepted before others are looked at

constexpr unsigned char kTlsHandshake = 0x16;  // the first record of TLS (RFC 8446, 5.1)
constexpr size_t kRecordHead = 5;
constexpr size_t kLongestRecord = (16 << 10) + 256;
constexpr unsigned char kHttp2 = 'P';  // "PRI * HTTP/2.0" (RFC 9113, 3.4)

constexpr char kNeedsTls[] =
    "plaintext is refused here: this task takes only TLS: give the client certificates (--tls_dir)";

std::string PeerOf(const UniqueFd& connection) {
  const std::optional<TcpEnds> ends = EndsOf(connection.get());
  return ends.has_value() ? PeerName(*ends) : "unknown";
}

// From now on poll(2) reports the connection when `bytes` have arrived, or the peer has ended.
void AwaitBytes(const UniqueFd& connection, size_t bytes) {
  const int count = static_cast<int>(bytes);
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVLOWAT, &count, sizeof(count));
}

}  // namespace

ConnectionAcceptor::~ConnectionAcceptor() { Stop(); }

void ConnectionAcceptor::AddUnix(UniqueFd listener, std::string path, Takers takers) {
  listeners_.push_back(
      {.fd = std::move(listener), .path = std::move(path), .takers = std::move(takers)});
}

void ConnectionAcceptor::AddTcp(UniqueFd listener, Peers peers, Takers takers) {
  listeners_.push_back(
      {.fd = std::move(listener), .path = "", .peers = peers, .takers = std::move(takers)});
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

// The descriptors: the event that ends the thread, the listeners, the waiting connections.
void ConnectionAcceptor::ThreadMain() {
  std::vector<pollfd> polled;
  while (true) {
    polled.assign(1, {wake_.get(), POLLIN, 0});
    for (const Listener& listener : listeners_) {
      polled.push_back({listener.fd.get(), static_cast<short>(no_descriptors_ ? 0 : POLLIN), 0});
    }
    for (const Waiting& waiting : waiting_) polled.push_back({waiting.fd.get(), POLLIN, 0});
    const int ready = poll(polled.data(), polled.size(), NextTimeout());
    if (polled[0].revents != 0) break;
    no_descriptors_ = false;
    const Clock::time_point now = Clock::now();
    size_t next = 1 + listeners_.size();
    std::erase_if(waiting_, [&](Waiting& waiting) {
      const bool readable = ready > 0 && polled[next].revents != 0;
      ++next;
      const bool done = readable && (waiting.refused ? Drain(&waiting) : Sort(&waiting));
      return done || now >= waiting.deadline;
    });
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (ready > 0 && polled[1 + i].revents != 0) Accept(&listeners_[i]);
    }
  }
  waiting_.clear();
}

int ConnectionAcceptor::NextTimeout() const {
  if (no_descriptors_) return kRetryMs;
  if (waiting_.empty()) return -1;
  Clock::time_point first = Clock::time_point::max();
  for (const Waiting& waiting : waiting_) first = std::min(first, waiting.deadline);
  const auto wait = first - Clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::max<int64_t>(0, ms + 1));
}

void ConnectionAcceptor::Accept(Listener* listener) {
  const Takers& takers = listener->takers;
  const bool at_once = takers.tls == nullptr && takers.socket == nullptr;
  for (int i = 0; i < kMostAtOnce; ++i) {
    UniqueFd connection(
        accept4(listener->fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.ok()) {
      no_descriptors_ = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      return;
    }
    if (!Admits(*listener, connection)) continue;
    if (at_once) {
      HandOver(*listener, takers.other, std::move(connection));
      continue;
    }
    if (waiting_.size() >= kMostWaiting) waiting_.erase(waiting_.begin());
    waiting_.push_back({std::move(connection), listener, Clock::now() + kFirstBytes});
  }
}

// Counts and logs a peer that belongs to another user.
bool ConnectionAcceptor::Admits(const Listener& listener, const UniqueFd& connection) {
  if (!listener.path.empty()) {
    ucred peer = {};
    socklen_t size = sizeof(peer);
    const bool known = getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (known && (peer.uid == geteuid() || peer.uid == 0)) return true;
    return RefuseUser("unix:" + listener.path, fmt::format("user {}", peer.uid),
                      PermissionDenied("process {}: the peer of a unix socket must belong to the "
                                       "user {} of this task",
                                       peer.pid, geteuid()));
  }
  if (listener.peers == Peers::kAll) return true;
  const std::optional<TcpEnds> ends = EndsOf(connection.get());
  if (!ends.has_value()) return false;  // the peer has gone
  const std::optional<uid_t> user = owners_.OwnerOfPeer(*ends);
  if (user == geteuid() || user == uid_t{0}) return true;
  if (user.has_value()) {
    return RefuseUser(PeerName(*ends), fmt::format("user {}", *user),
                      PermissionDenied("on loopback, the peer must belong to the user {} of this "
                                       "task: docs/cluster.md, Loopback",
                                       geteuid()));
  }
  if (owners_.can_tell()) {
    return RefuseUser(PeerName(*ends), "",
                      PermissionDenied("the peer closed its connection before this task looked"));
  }
  if (listener.peers == Peers::kOwnUserIfKnown) return true;
  return RefuseUser(PeerName(*ends), "",
                    PermissionDenied("the kernel does not say to which user the peer belongs: give "
                                     "the tasks a secret (--secret_file) or certificates "
                                     "(--tls_dir)"));
}

bool ConnectionAcceptor::RefuseUser(const std::string& address, const std::string& identity,
                                    absl::Status why) const {
  refusals_->Add(RefusalReason::kUser, {address, identity, ""}, std::move(why)).IgnoreError();
  return false;
}

void ConnectionAcceptor::HandOver(const Listener& listener, const Take& take, UniqueFd connection) {
  const bool limited = listener.path.empty() && listener.peers == Peers::kAll;
  if (limited) {
    const std::string peer = PeerOf(connection);
    if (!pending_->Add(peer)) {
      refusals_
          ->Add(RefusalReason::kCrowd, {peer, "", ""},
                PermissionDenied("{} connections, or {} of one host, are in their handshake or "
                                 "have opened no stream; try again",
                                 PendingPeers::kMost, PendingPeers::kMostOfHost))
          .IgnoreError();
      return;
    }
  }
  take(std::move(connection), listener.fd.get());
}

bool ConnectionAcceptor::Sort(Waiting* waiting) {
  unsigned char first = 0;
  const ssize_t got = recv(waiting->fd.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) return true;  // a probe, which only connects
  const Listener& listener = *waiting->listener;
  if (listener.takers.tls != nullptr) return SortTls(waiting, first);
  if (first == kSocketByte && listener.takers.socket != nullptr) {
    // It is admitted or refused at once, so it is in no handshake.
    listener.takers.socket(std::move(waiting->fd), listener.fd.get());
  } else {
    HandOver(listener, listener.takers.other, std::move(waiting->fd));
  }
  return true;
}

// gRPC gets the connection with the whole first record: a handshake that stops before it costs no
// more than a descriptor.
bool ConnectionAcceptor::SortTls(Waiting* waiting, unsigned char first) {
  if (first != kTlsHandshake) return RefusePlaintext(waiting, first == kHttp2);
  std::array<unsigned char, kRecordHead> head = {};
  const ssize_t got = recv(waiting->fd.get(), head.data(), head.size(), MSG_PEEK | MSG_DONTWAIT);
  size_t needed = head.size();
  if (got == static_cast<ssize_t>(head.size())) {
    const size_t record = static_cast<size_t>(head[3]) << 8 | head[4];
    if (record > kLongestRecord) return RefusePlaintext(waiting, /*http2=*/false);
    needed += record;
  }
  int present = 0;
  if (ioctl(waiting->fd.get(), FIONREAD, &present) != 0) return true;
  if (static_cast<size_t>(present) < needed) {
    // If that many bytes are awaited already, the peer has ended.
    if (std::exchange(waiting->awaited, needed) == needed) return true;
    AwaitBytes(waiting->fd, needed);
    return false;
  }
  AwaitBytes(waiting->fd, 1);
  HandOver(*waiting->listener, waiting->listener->takers.tls, std::move(waiting->fd));
  return true;
}

bool ConnectionAcceptor::RefusePlaintext(Waiting* waiting, bool http2) const {
  refusals_
      ->Add(RefusalReason::kPlaintext, {PeerOf(waiting->fd), "", ""},
            PermissionDenied("{}", http2 ? kNeedsTls : "the peer speaks neither TLS nor HTTP/2"))
      .IgnoreError();
  if (!http2) return true;
  const std::string goodbye = Http2Goodbye(kNeedsTls);
  send(waiting->fd.get(), goodbye.data(), goodbye.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  shutdown(waiting->fd.get(), SHUT_WR);
  waiting->refused = true;
  waiting->deadline = Clock::now() + kGoodbye;
  return Drain(waiting);
}

bool ConnectionAcceptor::Drain(Waiting* waiting) {
  std::array<char, 16 << 10> bytes;
  const ssize_t got = recv(waiting->fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (got < 0) return errno != EAGAIN && errno != EINTR;
  waiting->drained += static_cast<size_t>(got);
  return got == 0 || waiting->drained > kMostDrained;
}

}  // namespace cohort
