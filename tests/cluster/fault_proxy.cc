#include "tests/cluster/fault_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "tests/cluster/http2_scanner.h"
#include "tests/cluster/log_lines.h"

namespace cohort {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr size_t kMostBuffered = 4 << 20;  // then the sender has to wait
// The same on a slow link, here and in the kernel.
constexpr int kMostBufferedSlow = 128 << 10;
// How often a kRate lets bytes pass, and for how much time at most.
constexpr std::chrono::milliseconds kRateTick{4};
constexpr std::chrono::milliseconds kRateBurst{20};
constexpr size_t kReadBytes = 256 << 10;
constexpr size_t kFirstOfConnection = 2;  // index among the polled descriptors
constexpr size_t kPathWithin = 16 << 10;  // in the first bytes that a client sends

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

void SetNoDelay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

// A close that the peer sees as a reset.
void CloseHard(int fd) {
  const linger hard = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  close(fd);
}

bool Matches(Traffic wanted, const std::optional<Traffic>& is) {
  return wanted == Traffic::kAll || wanted == is;
}

}  // namespace

struct FaultProxy::Injected : Fault {
  // kRate: how many of `most` bytes may pass now; lowers `wake` to the time when more may.
  size_t Ration(size_t most, SteadyClock::time_point* wake) {
    const auto now = SteadyClock::now();
    if (now - refilled >= kRateTick) {
      const auto us = [](auto time) {
        return static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::microseconds>(time).count());
      };
      allowance += bytes_per_second * us(now - refilled) / 1'000'000;
      allowance = std::min(allowance, bytes_per_second * us(kRateBurst) / 1'000'000 + 1);
      refilled = now;
    }
    if (most > allowance) *wake = std::min(*wake, refilled + kRateTick);
    return std::min<uint64_t>(most, allowance);
  }

  uint64_t allowance = 0;  // the bytes that may pass now
  SteadyClock::time_point refilled = SteadyClock::now();
};

// One way of one connection.
class FaultProxy::Pipe {
 public:
  explicit Pipe(bool from_client) : scanner_(from_client) {}

  bool WantsRead() const { return !ended_ && buffer_.size() < most_buffered_; }
  // From now on, this way of the connection holds few bytes that come from `fd`.
  void HoldLittle(int fd) {
    if (std::exchange(most_buffered_, kMostBufferedSlow) == kMostBufferedSlow) return;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kMostBufferedSlow, sizeof(kMostBufferedSlow));
  }
  bool dropping() const { return dropping_; }
  // All bytes have arrived and are forwarded: the end may be passed on.
  bool Done() const { return ended_ && buffer_.empty(); }
  uint64_t forwarded() const { return forwarded_; }
  uint64_t messages() const { return messages_; }
  uint64_t dropped() const { return dropped_; }
  uint64_t delayed() const { return delayed_; }
  uint64_t held() const { return held_; }
  const std::string& first_bytes() const { return first_; }

  // Reads the available bytes. False: the connection is broken.
  bool ReadFrom(int fd) {
    static thread_local std::string bytes(kReadBytes, '\0');
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
      ended_ = true;
      return true;
    }
    const std::string_view read(bytes.data(), static_cast<size_t>(got));
    scanner_.Scan(read, &starts_);
    if (first_.size() < kPathWithin) first_.append(read.substr(0, kPathWithin - first_.size()));
    buffer_.append(read);
    arrivals_.emplace_back(forwarded_ + buffer_.size(), SteadyClock::now());
    return true;
  }

  // A new fault counts from here.
  void Mark() {
    fault_base_ = forwarded_;
    fault_messages_ = messages_;
  }

  // The number of buffered bytes that the fault does not affect yet.
  size_t Free(const Fault* fault) const {
    if (fault == nullptr || fault->kind == Fault::Kind::kDelay ||
        fault->kind == Fault::Kind::kRate) {
      return buffer_.size();
    }
    uint64_t limit = fault_base_ + fault->after_bytes;
    if (fault->after_messages > 0) {
      const uint64_t more = fault->after_messages - (messages_ - fault_messages_);
      limit = more < starts_.size() ? starts_[more] : std::numeric_limits<uint64_t>::max();
    }
    return limit <= forwarded_ ? 0 : std::min<uint64_t>(buffer_.size(), limit - forwarded_);
  }

  // The number of bytes that have waited for `delay`; lowers `wake` to the time when the next one
  // has.
  size_t Ripe(std::chrono::milliseconds delay, SteadyClock::time_point* wake) {
    uint64_t end = forwarded_;
    for (const auto& [until, at] : arrivals_) {
      if (at + delay > SteadyClock::now()) {
        *wake = std::min(*wake, at + delay);
        break;
      }
      end = until;
    }
    const uint64_t all = forwarded_ + buffer_.size();
    delayed_ += all - std::max(end, std::min(delayed_until_, all));
    delayed_until_ = all;
    return end - forwarded_;
  }

  // Writes up to `most` of what is buffered. False: the connection is broken.
  bool WriteTo(int fd, size_t most) {
    held_ = buffer_.size() - most;
    if (most == 0) return true;
    const ssize_t sent = send(fd, buffer_.data(), most, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    Advance(static_cast<size_t>(sent));
    return true;
  }
  // Nothing is forwarded from here: bytes after a gap would be meaningless.
  void DropAll() {
    dropping_ = true;
    dropped_ += buffer_.size();
    held_ = 0;
    buffer_.clear();
    arrivals_.clear();
  }

 private:
  void Advance(size_t bytes) {
    forwarded_ += bytes;
    buffer_.erase(0, bytes);
    while (!starts_.empty() && starts_.front() < forwarded_) {
      starts_.pop_front();
      ++messages_;
    }
    while (!arrivals_.empty() && arrivals_.front().first <= forwarded_) arrivals_.pop_front();
  }

  Http2Scanner scanner_;
  std::string first_;
  std::string buffer_;
  std::deque<uint64_t> starts_;  // offsets of messages that are not forwarded yet
  std::deque<std::pair<uint64_t, SteadyClock::time_point>>
      arrivals_;  // (end of the bytes, time of arrival)
  size_t most_buffered_ = kMostBuffered;
  bool ended_ = false;
  bool dropping_ = false;
  uint64_t forwarded_ = 0;
  uint64_t messages_ = 0;  // messages whose first byte was forwarded
  uint64_t dropped_ = 0;
  uint64_t held_ = 0;
  uint64_t delayed_ = 0;
  uint64_t delayed_until_ = 0;  // bytes below this are counted as delayed
  uint64_t fault_base_ = 0;
  uint64_t fault_messages_ = 0;
};

struct FaultProxy::Connection {
  int client = -1;
  int server = -1;
  std::optional<Traffic> traffic;  // once it is known
  Pipe to_server{/*from_client=*/true};
  Pipe to_client{/*from_client=*/false};
  bool passed_on[2] = {false, false};  // the end of each direction
  bool over = false;
  bool was_cut = false;
  bool ready = true;            // one of its sockets is ready, or a fault has changed
  bool doomed = false;          // to be reset by the thread that polls its sockets
  bool server_blocked = false;  // a socket's buffer is full
  bool client_blocked = false;
  size_t polled = 0;  // number of its sockets in the last poll
  SteadyClock::time_point wake = SteadyClock::time_point::max();

  Pipe& pipe(Way way) { return way == Way::kToServer ? to_server : to_client; }
  // A call names its path in the clear: gRPC does not compress it.
  void Classify() {
    if (traffic.has_value()) return;
    const std::string& first = to_server.first_bytes();
    for (const char* path : {"/PushPull", "/Collective"}) {
      if (first.find(path) != std::string::npos) traffic = Traffic::kData;
    }
    if (first.find("/Control") != std::string::npos) traffic = Traffic::kControl;
  }
};

absl::StatusOr<std::unique_ptr<FaultProxy>> FaultProxy::Start(int target_port) {
  UniqueFd fd = NewSocket();
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(fd.get(), 256) != 0) {
    return Unavailable("the proxy cannot listen");
  }
  getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return std::unique_ptr<FaultProxy>(
      new FaultProxy(target_port, std::move(fd), UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
                     ntohs(address.sin_port)));
}

FaultProxy::FaultProxy(int target_port, UniqueFd listen_fd, UniqueFd wake_fd, int port)
    : target_port_(target_port),
      listen_fd_(std::move(listen_fd)),
      wake_fd_(std::move(wake_fd)),
      port_(port) {
  thread_ = std::thread([this] { Run(); });
}

FaultProxy::~FaultProxy() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  MutexLock lock(&mu_);
  for (const auto& connection : connections_) Reset(connection.get());
}

void FaultProxy::Wake() { eventfd_write(wake_fd_.get(), 1); }

void FaultProxy::Inject(const Fault& fault) {
  {
    MutexLock lock(&mu_);
    std::erase_if(faults_,
                  [&](const Fault& f) { return f.way == fault.way && f.traffic == fault.traffic; });
    faults_.push_back({fault});
    for (const auto& connection : connections_) connection->pipe(fault.way).Mark();
  }
  Wake();
}

void FaultProxy::Heal() {
  {
    MutexLock lock(&mu_);
    faults_.clear();
    partition_.reset();
  }
  Wake();
}

void FaultProxy::Cut(Traffic traffic) {
  {
    MutexLock lock(&mu_);
    for (const auto& connection : connections_) {
      if (!connection->over && Matches(traffic, connection->traffic)) {
        connection->was_cut = connection->doomed = true;
      }
    }
  }
  Wake();
}

void FaultProxy::Partition(Traffic traffic) {
  {
    MutexLock lock(&mu_);
    partition_ = traffic;
  }
  Wake();
}

FaultProxy::Counters FaultProxy::counters(Traffic traffic, Way way) {
  MutexLock lock(&mu_);
  return Count(traffic, way);
}

bool FaultProxy::WaitUntil(Traffic traffic, Way way,
                           const std::function<bool(const Counters&)>& done,
                           std::chrono::milliseconds limit) {
  const auto deadline = SteadyClock::now() + Scaled(limit);
  MutexLock lock(&mu_);
  while (!done(Count(traffic, way))) {
    if (!changed_.WaitUntil(&mu_, deadline)) return done(Count(traffic, way));
  }
  return true;
}

bool FaultProxy::WaitHeld(Traffic traffic, Way way, std::chrono::milliseconds limit) {
  return WaitUntil(
      traffic, way, [](const Counters& c) { return c.held > 0; }, limit);
}

FaultProxy::Counters FaultProxy::Count(Traffic traffic, Way way) {
  Counters sum;
  const auto add = [&](const Counters& c) {
    sum.connections += c.connections;
    sum.cut += c.cut;
    sum.messages += c.messages;
    sum.bytes += c.bytes;
    sum.held += c.held;
    sum.dropped += c.dropped;
    sum.delayed += c.delayed;
  };
  for (const auto& [key, counters] : past_) {
    if (key.second == way && (traffic == Traffic::kAll || key.first == traffic)) add(counters);
  }
  for (const auto& connection : connections_) {
    if (!Matches(traffic, connection->traffic)) continue;
    const Pipe& pipe = connection->pipe(way);
    add({.connections = 1,
         .cut = connection->was_cut ? 1u : 0u,
         .messages = pipe.messages(),
         .bytes = pipe.forwarded(),
         .held = connection->over ? 0 : pipe.held(),
         .dropped = pipe.dropped(),
         .delayed = pipe.delayed()});
  }
  return sum;
}

void FaultProxy::Reset(Connection* connection) {
  if (connection->over) return;
  connection->over = true;
  CloseHard(connection->client);
  CloseHard(connection->server);
}

void FaultProxy::Accept() {
  while (true) {
    const int client = accept4(listen_fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) return;
    UniqueFd server = NewSocket();
    const sockaddr_in target = Loopback(target_port_);
    // Loopback answers at once, so a missing server refuses here, as it would without a proxy.
    const int connected =
        connect(server.get(), reinterpret_cast<const sockaddr*>(&target), sizeof(target));
    if (partition_ == Traffic::kAll || (connected != 0 && errno != EINPROGRESS)) {
      CloseHard(client);
      continue;
    }
    SetNoDelay(client);
    SetNoDelay(server.get());
    connections_.push_back(std::make_unique<Connection>());
    connections_.back()->client = client;
    connections_.back()->server = server.Release();
  }
}

FaultProxy::Injected* FaultProxy::FaultOf(const Connection& connection, Way way) {
  for (Injected& fault : faults_) {
    if (fault.way == way && Matches(fault.traffic, connection.traffic)) return &fault;
  }
  return nullptr;
}

bool FaultProxy::IsPartitioned(const Connection& connection) const {
  return partition_.has_value() && Matches(*partition_, connection.traffic);
}

bool FaultProxy::ServeWay(Connection* connection, Way way) {
  Pipe& pipe = connection->pipe(way);
  const bool to_server = way == Way::kToServer;
  const int from = to_server ? connection->client : connection->server;
  const int to = to_server ? connection->server : connection->client;
  if (pipe.WantsRead() && !pipe.ReadFrom(from)) return false;
  if (to_server) connection->Classify();
  if (IsPartitioned(*connection)) {
    connection->was_cut = true;
    return false;
  }
  if (pipe.dropping()) {
    pipe.DropAll();
    return true;
  }
  Injected* const fault = FaultOf(*connection, way);
  size_t most = pipe.Free(fault);
  if (fault != nullptr && fault->kind == Fault::Kind::kDelay) {
    most = std::min(most, pipe.Ripe(fault->delay, &connection->wake));
  }
  if (fault != nullptr && fault->kind == Fault::Kind::kRate) {
    pipe.HoldLittle(from);
    most = fault->Ration(most, &connection->wake);
  }
  const uint64_t before = pipe.forwarded();
  if (!pipe.WriteTo(to, most)) return false;
  const uint64_t sent = pipe.forwarded() - before;
  if (fault != nullptr) fault->allowance -= std::min(fault->allowance, sent);
  (to_server ? connection->server_blocked : connection->client_blocked) = sent < most;
  if (fault != nullptr && pipe.Free(fault) == 0 && pipe.held() > 0) {
    if (fault->kind == Fault::Kind::kDrop) pipe.DropAll();
    if (fault->kind == Fault::Kind::kCut) {
      connection->was_cut = true;
      faults_.erase(faults_.begin() + (fault - faults_.data()));
      return false;
    }
  }
  bool& passed_on = connection->passed_on[to_server ? 0 : 1];
  if (pipe.Done() && !std::exchange(passed_on, true)) shutdown(to, SHUT_WR);
  return true;
}

bool FaultProxy::Serve(Connection* connection) {
  connection->wake = SteadyClock::time_point::max();
  if (!ServeWay(connection, Way::kToServer) || !ServeWay(connection, Way::kToClient)) return false;
  return !connection->passed_on[0] || !connection->passed_on[1];
}

// Adds the counts of a closed connection to the totals.
void FaultProxy::Bury(Connection* connection) {
  for (const Way way : {Way::kToServer, Way::kToClient}) {
    const Pipe& pipe = connection->pipe(way);
    Counters& past = past_[{connection->traffic.value_or(Traffic::kAll), way}];
    past.connections += 1;
    past.cut += connection->was_cut ? 1 : 0;
    past.messages += pipe.messages();
    past.bytes += pipe.forwarded();
    past.dropped += pipe.dropped();
    past.delayed += pipe.delayed();
  }
}

// Serves every ready connection, and sets what to poll for and until when. `fds` is the result of
// the last poll.
SteadyClock::time_point FaultProxy::Sweep(std::vector<pollfd>* fds) {
  const bool told = fds->empty() || fds->front().revents != 0;
  const SteadyClock::time_point now = SteadyClock::now();
  size_t polled = kFirstOfConnection;
  for (const auto& c : connections_) {
    c->ready = told || c->wake <= now;
    for (size_t i = 0; i < c->polled; ++i) c->ready |= (*fds)[polled++].revents != 0;
  }
  // The connections that share a rate take turns.
  if (!connections_.empty()) {
    connections_.splice(connections_.end(), connections_, connections_.begin());
  }
  Accept();
  *fds = {{.fd = wake_fd_.get(), .events = POLLIN}, {.fd = listen_fd_.get(), .events = POLLIN}};
  // A socket that is neither read nor written is not polled: it could only report a lost peer.
  const auto add = [fds](int fd, bool read, bool write) -> size_t {
    const short events = static_cast<short>((read ? POLLIN : 0) | (write ? POLLOUT : 0));
    if (events == 0) return 0;
    fds->push_back({.fd = fd, .events = events});
    return 1;
  };
  SteadyClock::time_point wake = SteadyClock::time_point::max();
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection* const c = it->get();
    if (!c->over && (c->doomed || (c->ready && !Serve(c)))) Reset(c);
    if (c->over) {
      Bury(c);
      it = connections_.erase(it);
      continue;
    }
    c->polled = add(c->client, c->to_server.WantsRead(), c->client_blocked) +
                add(c->server, c->to_client.WantsRead(), c->server_blocked);
    wake = std::min(wake, c->wake);
    ++it;
  }
  changed_.SignalAll();
  return wake;
}

void FaultProxy::Run() {
  std::vector<pollfd> fds;
  while (true) {
    SteadyClock::time_point wake;
    {
      MutexLock lock(&mu_);
      if (stopping_) return;
      wake = Sweep(&fds);
    }
    int timeout = -1;
    if (wake != SteadyClock::time_point::max()) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(wake - SteadyClock::now()).count();
      timeout = static_cast<int>(std::max<int64_t>(0, left)) + 1;
    }
    poll(fds.data(), fds.size(), timeout);
    eventfd_t count = 0;
    if (eventfd_read(wake_fd_.get(), &count) == 0) fds.front().revents = POLLIN;
  }
}

}  // namespace cohort
