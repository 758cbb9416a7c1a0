#include "common/exchange/remote_access.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "common/base/crash_point.h"
#include "common/base/status.h"
#include "common/exchange/exchange_runner.h"
#include "common/exchange/remote_access_connection.h"
#include "common/os/identity.h"
#include "common/rpc/push_pull/push_pull_codec.h"

namespace cohort {
namespace {

int64_t Micros(TimePoint t) {
  return std::chrono::duration_cast<std::chrono::microseconds>(t.time_since_epoch()).count();
}

TimePoint FromMicros(int64_t us) { return TimePoint(std::chrono::microseconds(us)); }

// Added to only by the step thread: a relaxed store is enough.
void Bump(std::atomic<uint64_t>* counter, uint64_t by) {
  counter->store(counter->load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

}  // namespace

class RemoteAccess::Impl : public ExchangeRunner {
 public:
  explicit Impl(const RemoteAccessOptions& options)
      : ExchangeRunner(options.exchange), options_(options) {}
  ~Impl() override { loop_.Shutdown(); }

  uint64_t turns() const { return loop_.turns(); }
  void Wait(TimePoint deadline) { loop_.PollOnce(deadline); }
  void WakeUp() override { loop_.Wake(); }
  BufferRef AllocatePushAreas(size_t bytes) { return areas_.Allocate(bytes); }
  Counters counters() const;
  std::vector<LinkWait> TakeWaits() { return waits_.Take(); }
  const CodecCounters& codec_counters() const { return codec_counters_; }

 private:
  struct Link {
    std::shared_ptr<PsConnection> connection;   // null: none is open
    std::shared_ptr<LocalServer> local_server;  // null: it is not in this process
    // Earlier ones of this process: a step may still read what they have lent.
    std::vector<std::unique_ptr<LocalConnection>> ended;
    std::unique_ptr<LocalConnection> local;  // null: none is open
    uint64_t incarnation = 0;
    bool avoid_unix = false;  // it has not led to this incarnation
    // What steps read there outlives the connection.
    std::unique_ptr<PeerSegments> weights = std::make_unique<PeerSegments>();
  };

  int64_t NowUs() const override { return Micros(std::chrono::steady_clock::now()); }
  void WaitForInput(int64_t deadline_us) override;
  void TakeInput() override;
  void OnEnded() override;
  void Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) override;
  void Reset(const ServerRoute& server) override;
  BytesMoved Moved(const ServerRoute& server) override;
  bool Compacts(const ServerRoute& server) override;
  void OnSlow(const ServerRoute& server, const std::string& progress) override;

  bool TakeLocalAnswers();
  LocalConnection* ConnectLocal(const ServerRoute& server);
  void TakeMemoryBack();
  PsConnection* Connect(const ServerRoute& server);
  void Drop(uint32_t ps);
  void AvoidMuteSocket(const PsConnection& connection, Link* link);
  void OnClosed(PsConnection* connection, const absl::Status& status);
  void OnNotShared(PsConnection* connection, const absl::Status& why);

  const RemoteAccessOptions options_;
  const uint64_t client_ = RandomIncarnation();
  CompletionLoop loop_;

  // Used by the step thread only.
  bool reported_not_shared_ = false;
  bool secret_accepted_ = false;  // a server has answered
  PayloadLoan loan_;
  PushAreas areas_;
  CodecCounters codec_counters_;
  PushPullEncoder encoder_{&codec_counters_};
  std::map<uint32_t, Link> links_;
  std::vector<std::shared_ptr<PsConnection>> abandoned_;  // until their OnClosed
  std::vector<std::shared_ptr<PsConnection>> closed_;     // after it

  LinkWaits waits_;

  std::atomic<uint64_t> exchanges_{0};
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> resends_{0};
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_received_{0};
  std::atomic<uint64_t> bytes_copied_{0};
  std::atomic<uint64_t> bytes_lent_{0};
  std::atomic<uint64_t> areas_renewed_{0};
  std::atomic<uint64_t> connections_{0};
  std::atomic<uint64_t> release_polls_{0};
  std::atomic<uint64_t> sockets_given_up_{0};
};

void RemoteAccess::Impl::WaitForInput(int64_t deadline_us) {
  if (TakeLocalAnswers()) return;
  loop_.PollOnce(deadline_us == kForever ? CompletionLoop::kForever : FromMicros(deadline_us));
}

// The end of a write is an event of the loop, which then starts the next write.
void RemoteAccess::Impl::TakeInput() {
  TakeLocalAnswers();
  while (loop_.PollOnce(std::chrono::steady_clock::now())) {
  }
}

void RemoteAccess::Impl::OnEnded() {
  for (auto& [ps, link] : links_) {
    if (link.local != nullptr) link.local->Drop();
  }
  TakeMemoryBack();
  Bump(&areas_renewed_, areas_.EndExchange());
  closed_.clear();
  Bump(&exchanges_, 1);
  requests_.store(exchange_.counters().requests, std::memory_order_relaxed);
  resends_.store(exchange_.counters().resends, std::memory_order_relaxed);
  bytes_copied_.store(exchange_.counters().bytes_copied, std::memory_order_relaxed);
  const uint64_t lent = exchange_.counters().bytes_lent;
  if (lent > 0 && options_.log != nullptr && bytes_lent_.load(std::memory_order_relaxed) == 0) {
    options_.log->Info("reads_weights_in_place");
  }
  bytes_lent_.store(lent, std::memory_order_relaxed);
}

// Returns true if the exchange has had input.
bool RemoteAccess::Impl::TakeLocalAnswers() {
  bool taken = false;
  for (auto& [ps, link] : links_) {
    if (link.local == nullptr || !link.local->pending()) continue;
    const auto take = [&, number = ps](const v1::PushPullResponseHeader& header,
                                       std::span<const PayloadPieces> payload,
                                       std::span<const uint8_t> lent) {
      exchange_.OnResponse(number, header, payload, NowUs(), lent);
    };
    if (link.local->Take(take)) {
      taken = true;
    } else if (link.local_server->ended()) {
      link.ended.push_back(std::move(link.local));
      exchange_.OnLost(ps, Unavailable("ps:{} of this process has ended", ps), NowUs());
      taken = true;
    }
  }
  return taken;
}

// The connection to a server of this process; null if it is none, or has ended.
LocalConnection* RemoteAccess::Impl::ConnectLocal(const ServerRoute& server) {
  if (options_.local == nullptr) return nullptr;
  Link& link = links_[server.ps];
  if (link.incarnation != server.incarnation) {
    if (link.local != nullptr) link.ended.push_back(std::move(link.local));
    link.local_server = options_.local->Find(server.incarnation);
    // The stream of a server that had this number before.
    if (link.local_server != nullptr) Drop(server.ps);
  }
  if (link.local_server == nullptr) return nullptr;
  if (link.local == nullptr) link.local = link.local_server->Connect([this] { loop_.Wake(); });
  if (link.local != nullptr) link.incarnation = server.incarnation;
  return link.local.get();
}

// After an exchange that ended early, or in which a request was sent twice, bytes that reference
// the caller's memory may still wait to be written. Such connections are closed, so that gRPC
// releases the memory.
void RemoteAccess::Impl::TakeMemoryBack() {
  if (loan_.idle()) return;
  if (exchange_.state() != Exchange::State::kDone) {
    std::vector<uint32_t> all;
    for (const auto& [ps, link] : links_) {
      if (link.connection != nullptr) all.push_back(ps);
    }
    for (const uint32_t ps : all) Drop(ps);
  }
  while (!loan_.idle()) {
    Bump(&release_polls_, 1);
    loop_.PollOnce(std::chrono::steady_clock::now() + std::chrono::microseconds(200));
    closed_.clear();
  }
}

void RemoteAccess::Impl::Send(const ServerRoute& server,
                              std::span<const ExchangeMessage> messages) {
  if (LocalConnection* const local = ConnectLocal(server); local != nullptr) {
    local->Send(messages);
    if (messages.back().header.has_push()) COHORT_CRASH_POINT("replica.own_push.made");
    return;
  }
  PsConnection* connection = Connect(server);
  if (connection == nullptr) return;
  connection->Send(messages, &encoder_, &loan_);
  for (const ExchangeMessage& message : messages) {
    for (const Bytes& bytes : message.payload) Bump(&bytes_sent_, bytes.size());
  }
  if (messages.back().header.has_push()) COHORT_CRASH_POINT("worker.push.sent");
}

// The open connection to a server, or a new one. Null if its address is invalid: the exchange
// then handles the server like any other that is unreachable.
PsConnection* RemoteAccess::Impl::Connect(const ServerRoute& server) {
  Link& link = links_[server.ps];
  if (link.incarnation != server.incarnation) {
    link.incarnation = server.incarnation;
    link.avoid_unix = false;
    if (link.connection != nullptr) Drop(server.ps);
  }
  if (link.connection != nullptr) return link.connection.get();
  PsConnection::Callbacks callbacks;
  callbacks.on_response = [this](PsConnection* from, const v1::PushPullResponseHeader& header,
                                 std::span<const PayloadPieces> payload,
                                 std::span<const uint8_t> lent) {
    secret_accepted_ = true;
    const int64_t now_us = NowUs();
    const int64_t wait_us = exchange_.TakeWait(from->ps(), header, now_us);
    if (wait_us >= 0) waits_.Add(from->ps(), wait_us);
    exchange_.OnResponse(from->ps(), header, payload, now_us, lent);
    for (const PayloadPieces& field : payload) {
      for (const Bytes& piece : field) Bump(&bytes_received_, piece.size());
    }
  };
  callbacks.on_closed = [this](PsConnection* closed, const absl::Status& status) {
    OnClosed(closed, status);
  };
  callbacks.on_not_shared = [this](PsConnection* from, const absl::Status& why) {
    OnNotShared(from, why);
  };
  auto connection = std::make_shared<PsConnection>(
      server.ps, server.incarnation,
      PsConnection::ChooseAddress(server, options_.host_id, link.avoid_unix),
      PsConnection::Sharing{.client = client_, .weights = link.weights.get(), .areas = &areas_},
      std::move(callbacks), &codec_counters_);
  StreamClient::Options client;
  client.security = options_.security;
  client.task = Task{Role::kPs, static_cast<int>(server.ps)};
  client.transport.AwaitBusyServer();
  client.transport.http2_frame_bytes = kPushPullHttp2FrameBytes;
  client.transport.QueueUpTo(std::numeric_limits<size_t>::max());  // gradients of this process
  const absl::Status opened = connection->Open(client, &loop_);
  if (!opened.ok()) {
    loop_.Post([this, ps = server.ps, opened] {
      exchange_.OnLost(ps, opened, Micros(std::chrono::steady_clock::now()));
    });
    return nullptr;
  }
  Bump(&connections_, 1);
  link.connection = std::move(connection);
  return link.connection.get();
}

void RemoteAccess::Impl::AvoidMuteSocket(const PsConnection& connection, Link* link) {
  if (!connection.is_mute_socket()) return;
  link->avoid_unix = true;
  Bump(&sockets_given_up_, 1);
}

void RemoteAccess::Impl::Reset(const ServerRoute& server) {
  Link& link = links_[server.ps];
  if (link.local != nullptr) link.local->Drop();
  if (link.connection != nullptr) AvoidMuteSocket(*link.connection, &link);
  Drop(server.ps);
}

// A server of this process answers calls: nothing moves.
BytesMoved RemoteAccess::Impl::Moved(const ServerRoute& server) {
  const std::shared_ptr<PsConnection>& connection = links_[server.ps].connection;
  return connection == nullptr ? BytesMoved() : connection->moved();
}

// Copies between tasks of one host are cheaper than to narrow and to widen.
bool RemoteAccess::Impl::Compacts(const ServerRoute& server) {
  if (!server.compact || ConnectLocal(server) != nullptr) return false;
  const PsConnection* const connection = Connect(server);
  return connection != nullptr && !connection->on_unix_socket();
}

void RemoteAccess::Impl::OnSlow(const ServerRoute& server, const std::string& progress) {
  if (options_.log == nullptr) return;
  options_.log->Warning("slow_request", {{"ps", server.ps}, {"progress", progress}});
}

void RemoteAccess::Impl::Drop(uint32_t ps) {
  std::shared_ptr<PsConnection> connection = std::move(links_[ps].connection);
  links_[ps].connection = nullptr;
  if (connection == nullptr) return;
  abandoned_.push_back(connection);
  connection->Abandon();
}

void RemoteAccess::Impl::OnClosed(PsConnection* connection, const absl::Status& status) {
  const auto left = std::find_if(abandoned_.begin(), abandoned_.end(),
                                 [&](const auto& held) { return held.get() == connection; });
  // It calls this function: it is destroyed later.
  std::shared_ptr<PsConnection> last;
  if (left != abandoned_.end()) {
    last = std::move(*left);
    abandoned_.erase(left);
  } else {
    Link& link = links_[connection->ps()];
    last = std::move(link.connection);
    link.connection = nullptr;
    AvoidMuteSocket(*connection, &link);
    if (absl::IsUnauthenticated(status) && !secret_accepted_ && options_.on_secret_refused) {
      options_.on_secret_refused(
          Annotate(status, fmt::format("ps:{} refuses this task", connection->ps())));
    }
    exchange_.OnLost(connection->ps(), status, Micros(std::chrono::steady_clock::now()));
  }
  closed_.push_back(std::move(last));
}

void RemoteAccess::Impl::OnNotShared(PsConnection* connection, const absl::Status& why) {
  if (options_.log == nullptr || std::exchange(reported_not_shared_, true)) return;
  options_.log->Warning("memory_not_shared",
                        {{"ps", connection->ps()},
                         {"reason", std::string(why.message())},
                         {"hint", "run both as one user, in one PID namespace"}});
}

RemoteAccess::Counters RemoteAccess::Impl::counters() const {
  const auto read = [](const std::atomic<uint64_t>& c) {
    return c.load(std::memory_order_relaxed);
  };
  return {read(exchanges_),
          read(requests_),
          read(resends_),
          read(bytes_sent_),
          read(bytes_received_),
          read(bytes_copied_),
          read(bytes_lent_),
          static_cast<uint64_t>(codec_counters_.bytes_placed.load(std::memory_order_relaxed)),
          static_cast<uint64_t>(codec_counters_.bytes_in_place.load(std::memory_order_relaxed)),
          read(areas_renewed_),
          read(connections_),
          read(release_polls_),
          read(sockets_given_up_)};
}

RemoteAccess::RemoteAccess(const RemoteAccessOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
RemoteAccess::~RemoteAccess() = default;

std::unique_ptr<VariableAccess> RemoteAccess::ForProgram(std::span<const VariableDecl> variables) {
  return impl_->ForProgram(variables);
}
ExchangeThread* RemoteAccess::thread() { return impl_.get(); }
BufferRef RemoteAccess::AllocatePushAreas(size_t bytes) { return impl_->AllocatePushAreas(bytes); }
uint64_t RemoteAccess::turns() const { return impl_->turns(); }
void RemoteAccess::Wait(TimePoint deadline) { impl_->Wait(deadline); }
void RemoteAccess::Wake() { impl_->WakeUp(); }
RemoteAccess::Counters RemoteAccess::counters() const { return impl_->counters(); }
std::vector<LinkWait> RemoteAccess::TakeWaits() { return impl_->TakeWaits(); }
const CodecCounters& RemoteAccess::codec_counters() const { return impl_->codec_counters(); }

}  // namespace cohort
