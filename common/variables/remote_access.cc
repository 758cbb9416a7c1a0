#include "common/variables/remote_access.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "common/base/crash_point.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/variables/remote_access_connection.h"
#include "proto/worker.pb.h"

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

class RemoteAccess::Impl : public ExchangeSink {
 public:
  explicit Impl(const RemoteAccessOptions& options)
      : options_(options), exchange_(options.exchange) {}
  ~Impl() override { loop_.Shutdown(); }

  // One program's view. `routes` are made again when the job's routes are new.
  struct Program {
    std::vector<VariableDecl> variables;
    std::shared_ptr<const ProgramRoutes> routes;
    uint64_t routes_number = 0;
  };

  absl::StatusOr<ExchangeResult> Run(Program* program, const PushBatch* push,
                                     const PullBatch* pull);

  void SetRoutes(std::shared_ptr<const v1::Routes> routes) {
    MutexLock lock(&mu_);
    routes_ = std::move(routes);
    routes_number_.fetch_add(1, std::memory_order_release);
    loop_.Wake();
  }
  void SetGeneration(uint64_t generation) {
    generation_.store(generation, std::memory_order_relaxed);
    loop_.Wake();
  }
  void SetWatermark(uint64_t watermark) { watermark_.store(watermark, std::memory_order_relaxed); }
  void Interrupt() {
    interrupted_.store(true, std::memory_order_release);
    loop_.Wake();
  }
  void Wait(TimePoint deadline) { loop_.PollOnce(deadline); }
  void Wake() { loop_.Wake(); }
  Counters counters() const;

  void Send(const ServerRoute& server, std::span<const ExchangeMessage> messages) override;
  void Reset(const ServerRoute& server) override { Drop(server.ps); }

 private:
  struct Link {
    std::shared_ptr<PsConnection> connection;  // null: none is open
    uint64_t incarnation = 0;
    bool avoid_unix = false;  // it failed for this incarnation
  };

  absl::Status Refresh(Program* program);
  void Steer(Program* program);
  void TakeMemoryBack();
  PsConnection* Connect(const ServerRoute& server);
  void Drop(uint32_t ps);
  void OnClosed(PsConnection* connection, const absl::Status& status);

  const RemoteAccessOptions options_;
  CompletionLoop loop_;

  // Left by other threads.
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> watermark_{0};
  std::atomic<bool> interrupted_{false};
  std::atomic<uint64_t> routes_number_{0};
  Mutex mu_;
  std::shared_ptr<const v1::Routes> routes_ ABSL_GUARDED_BY(mu_);

  // Of the step thread.
  Exchange exchange_;
  PayloadLease lease_;
  PushPullEncoder encoder_;
  std::map<uint32_t, Link> links_;
  std::vector<std::shared_ptr<PsConnection>> abandoned_;  // until their OnClosed
  std::vector<std::shared_ptr<PsConnection>> closed_;     // after it

  std::atomic<uint64_t> exchanges_{0};
  std::atomic<uint64_t> requests_{0};
  std::atomic<uint64_t> resends_{0};
  std::atomic<uint64_t> bytes_sent_{0};
  std::atomic<uint64_t> bytes_received_{0};
  std::atomic<uint64_t> connections_{0};
  std::atomic<uint64_t> release_polls_{0};
};

absl::StatusOr<ExchangeResult> RemoteAccess::Impl::Run(Program* program, const PushBatch* push,
                                                       const PullBatch* pull) {
  closed_.clear();
  COHORT_RETURN_IF_ERROR(Refresh(program));
  TimePoint now = std::chrono::steady_clock::now();
  exchange_.SetGeneration(generation_.load(std::memory_order_relaxed), Micros(now));
  exchange_.SetWatermark(watermark_.load(std::memory_order_relaxed));
  COHORT_RETURN_IF_ERROR(exchange_.Begin(program->routes, push, pull, Micros(now)));
  const Exchange::Counters before = exchange_.counters();
  while (true) {
    Steer(program);
    exchange_.Poll(Micros(now), this);
    if (exchange_.state() != Exchange::State::kRunning) break;
    const int64_t next = exchange_.NextPoll();
    loop_.PollOnce(next == std::numeric_limits<int64_t>::max() ? CompletionLoop::kForever
                                                               : FromMicros(next));
    if (exchange_.state() != Exchange::State::kRunning) break;
    now = std::chrono::steady_clock::now();
  }
  TakeMemoryBack();
  Bump(&exchanges_, 1);
  Bump(&requests_, exchange_.counters().requests - before.requests);
  Bump(&resends_, exchange_.counters().resends - before.resends);
  if (exchange_.state() != Exchange::State::kDone) return exchange_.status();
  return exchange_.result();
}

// Makes the program's routes again where the job's are new.
absl::Status RemoteAccess::Impl::Refresh(Program* program) {
  const uint64_t number = routes_number_.load(std::memory_order_acquire);
  if (number == 0) return FailedPrecondition("no routes to parameter servers yet");
  if (program->routes_number == number) return absl::OkStatus();
  std::shared_ptr<const v1::Routes> routes;
  {
    MutexLock lock(&mu_);
    routes = routes_;
    program->routes_number = routes_number_.load(std::memory_order_relaxed);
  }
  auto made = ProgramRoutes::Make(*routes, program->variables);
  if (!made.ok()) {
    program->routes_number = 0;
    return made.status();
  }
  program->routes = *std::move(made);
  return absl::OkStatus();
}

// Brings to the exchange what other threads have left.
void RemoteAccess::Impl::Steer(Program* program) {
  const int64_t now_us = Micros(std::chrono::steady_clock::now());
  if (interrupted_.load(std::memory_order_relaxed) &&
      interrupted_.exchange(false, std::memory_order_acquire)) {
    exchange_.Cancel(Cancelled("interrupted"));
    return;
  }
  exchange_.SetGeneration(generation_.load(std::memory_order_relaxed), now_us);
  exchange_.SetWatermark(watermark_.load(std::memory_order_relaxed));
  if (program->routes_number != routes_number_.load(std::memory_order_relaxed)) {
    const absl::Status refreshed = Refresh(program);
    if (refreshed.ok()) {
      exchange_.OnRoutes(program->routes, now_us);
    } else {
      exchange_.Cancel(refreshed);
    }
  }
}

// After an exchange that ended early, or in which a request was sent twice, bytes that reference
// the caller's memory may still wait to be written: those connections end, and gRPC lets go of
// them.
void RemoteAccess::Impl::TakeMemoryBack() {
  if (lease_.idle()) return;
  if (exchange_.state() != Exchange::State::kDone) {
    std::vector<uint32_t> all;
    for (const auto& [ps, link] : links_) {
      if (link.connection != nullptr) all.push_back(ps);
    }
    for (const uint32_t ps : all) Drop(ps);
  }
  while (!lease_.idle()) {
    Bump(&release_polls_, 1);
    loop_.PollOnce(std::chrono::steady_clock::now() + std::chrono::microseconds(200));
    closed_.clear();
  }
}

void RemoteAccess::Impl::Send(const ServerRoute& server,
                              std::span<const ExchangeMessage> messages) {
  PsConnection* connection = Connect(server);
  if (connection == nullptr) return;
  connection->Send(messages, &encoder_, &lease_);
  for (const ExchangeMessage& message : messages) {
    for (const Bytes& bytes : message.payload) Bump(&bytes_sent_, bytes.size());
  }
  if (messages.back().header.has_push()) COHORT_CRASH_POINT("worker.push.sent");
}

// The open connection to a server, or a new one. Null where its address makes no sense: the
// exchange is told, as of any server that cannot be reached.
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
                                 std::span<const PayloadPieces> payload) {
    exchange_.OnResponse(from->ps(), header, payload, Micros(std::chrono::steady_clock::now()));
    for (const PayloadPieces& field : payload) {
      for (const Bytes& piece : field) Bump(&bytes_received_, piece.size());
    }
  };
  callbacks.on_closed = [this](PsConnection* closed, const absl::Status& status) {
    OnClosed(closed, status);
  };
  auto connection = std::make_shared<PsConnection>(
      server.ps, PsConnection::ChooseAddress(server, options_.host_id, link.avoid_unix),
      std::move(callbacks));
  const absl::Status opened = connection->Open(options_.allow_insecure, &loop_);
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
    if (!connection->connected() && connection->address().starts_with("unix:")) {
      link.avoid_unix = true;
    }
    exchange_.OnLost(connection->ps(), status, Micros(std::chrono::steady_clock::now()));
  }
  closed_.push_back(std::move(last));
}

RemoteAccess::Counters RemoteAccess::Impl::counters() const {
  const auto read = [](const std::atomic<uint64_t>& c) {
    return c.load(std::memory_order_relaxed);
  };
  return {read(exchanges_),      read(requests_),    read(resends_),      read(bytes_sent_),
          read(bytes_received_), read(connections_), read(release_polls_)};
}

namespace {

// The VariableAccess of one program.
template <typename Impl>
class ProgramAccess : public VariableAccess {
 public:
  ProgramAccess(Impl* impl, std::span<const VariableDecl> variables) : impl_(impl) {
    program_.variables.assign(variables.begin(), variables.end());
  }
  absl::StatusOr<ExchangeResult> Exchange(const PushBatch* push, const PullBatch* pull) override {
    return impl_->Run(&program_, push, pull);
  }
  void Interrupt() override { impl_->Interrupt(); }

 private:
  Impl* const impl_;
  typename Impl::Program program_;
};

}  // namespace

RemoteAccess::RemoteAccess(const RemoteAccessOptions& options)
    : impl_(std::make_unique<Impl>(options)) {}
RemoteAccess::~RemoteAccess() = default;

std::unique_ptr<VariableAccess> RemoteAccess::ForProgram(std::span<const VariableDecl> variables) {
  return std::make_unique<ProgramAccess<Impl>>(impl_.get(), variables);
}
void RemoteAccess::SetRoutes(std::shared_ptr<const v1::Routes> routes) {
  impl_->SetRoutes(std::move(routes));
}
void RemoteAccess::SetGeneration(uint64_t generation) { impl_->SetGeneration(generation); }
void RemoteAccess::SetWatermark(uint64_t watermark) { impl_->SetWatermark(watermark); }
void RemoteAccess::Interrupt() { impl_->Interrupt(); }
void RemoteAccess::Wait(TimePoint deadline) { impl_->Wait(deadline); }
void RemoteAccess::Wake() { impl_->Wake(); }
RemoteAccess::Counters RemoteAccess::counters() const { return impl_->counters(); }

}  // namespace cohort
