// The control stream, health checks and keep-alives while applies hold all data threads.
#include <cstdlib>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_client.h"
#include "common/rpc/stream/stream_server.h"
#include "common/testing/time_test_util.h"
#include "ps_server/core_test_util.h"
#include "ps_server/data_stream.h"
#include "ps_server/ps_service.h"

namespace cohort::ps_test::control {
namespace {

using std::chrono::milliseconds;

constexpr int kDataThreads = 2;

// As in the daemons (PrepareTransportProcess), each thread reads the sockets of its own queue only.
// It must be set before gRPC starts.
[[maybe_unused]] const int kPollStrategy = setenv("GRPC_POLL_STRATEGY", "poll", /*overwrite=*/0);

// Holds threads until it is opened.
class Gate {
 public:
  ~Gate() { Open(); }
  void Pass() {
    MutexLock lock(&mu_);
    ++held_;
    while (!open_) changed_.Wait(&mu_);
    --held_;
  }
  void Open() {
    MutexLock lock(&mu_);
    open_ = true;
    changed_.SignalAll();
  }
  int held() const {
    MutexLock lock(&mu_);
    return held_;
  }

 private:
  mutable Mutex mu_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mu_) = false;
  int held_ ABSL_GUARDED_BY(mu_) = 0;
};

// A connection with one or more streams, polled by the test's thread.
class Peer : public StreamHandler {
 public:
  Peer(const std::string& address, const StreamClient::Options& options, CompletionLoop* loop)
      : loop_(loop), client_(*StreamClient::Create(address, options)) {}
  ~Peer() override {
    if (stream == nullptr) return;
    stream->Abort();
    loop_->RunUntil([this] { return closed; },
                    CompletionLoop::Clock::now() + testing::Scaled(std::chrono::seconds(30)));
  }
  void Open(const std::string& method) {
    closed = false;
    stream = client_->Open(method, this, loop_, {});
  }
  void OnFrame(Frame) override { ++frames; }
  void OnClosed(const absl::Status&) override { closed = true; }

  std::shared_ptr<Stream> stream;
  int frames = 0;
  bool closed = false;

 private:
  CompletionLoop* const loop_;
  std::unique_ptr<StreamClient> client_;
};

// A core whose answers leave through the service.
class ServedCore : public TestCore {
 public:
  explicit ServedCore(PsService* service) : service_(service) {}
  void Send(Adoption::Connection connection, const v1::PsToChief& message) override {
    service_->Send(connection, message);
  }

 private:
  PsService* const service_;
};

// A server whose data threads stop at a gate in place of an apply, and its peers.
class HeldServer {
 public:
  // `patient`: data streams wait for a busy server, as those of workers do.
  explicit HeldServer(bool patient) {
    RequestContext context =
        MakeRequestContext(ps_.core.get(), &counters_, &held_, &parked_, /*pins=*/nullptr);
    context.execute = [this, at_once = context.execute](std::unique_ptr<PushPullRequest> request) {
      gate_.Pass();
      return at_once(std::move(request));
    };
    StreamServer::Methods methods = service_.Methods(ps_.core.get(), &clock_);
    methods[kPushPullMethod] = [shared =
                                    std::make_shared<const RequestContext>(std::move(context))](
                                   std::shared_ptr<Stream> stream, CompletionLoop*) {
      return std::make_unique<DataStream>(shared, std::move(stream));
    };
    StreamServer::Options options;
    options.listen = {"127.0.0.1:0"};
    options.threads = kDataThreads;
    options.control_methods = {kControlMethod};
    server_ = *StreamServer::Start(options, std::move(methods));
    // Keep-alives that are not acknowledged soon end a connection.
    control_.transport.keepalive_interval = milliseconds(100);
    control_.transport.keepalive_timeout = testing::Scaled(milliseconds(1500));
    data_ = control_;
    if (patient) data_.transport.AwaitBusyServer();
    chief = NewControlPeer();
    Ping();
    REQUIRE(Until([this] { return chief->frames == 1; }));
  }
  ~HeldServer() { gate_.Open(); }

  std::unique_ptr<Peer> NewControlPeer() { return NewPeer(control_, kControlMethod); }
  bool Until(const std::function<bool()>& what,
             CompletionLoop::Clock::duration limit = testing::Scaled(std::chrono::seconds(30))) {
    const auto deadline = CompletionLoop::Clock::now() + limit;
    while (!what() && CompletionLoop::Clock::now() < deadline) {
      loop_.PollOnce(CompletionLoop::Clock::now() + milliseconds(5));
    }
    return what();
  }
  void Ping() {
    v1::ChiefToPs message;
    message.mutable_ping()->set_sent_unix_micros(1);
    chief->stream->Send(SerializeToFrame(message));
  }
  // Opens data streams, each with one request, until all data threads stand at the gate.
  void HoldDataThreads() {
    v1::PushPullHeader header;
    header.set_sequence(1);
    PushPullEncoder encoder;
    while (gate_.held() < kDataThreads && data.size() < 16) {
      data.push_back(NewPeer(data_, kPushPullMethod));
      data.back()->stream->Send(encoder.Finish(header));
      const int before = gate_.held();
      Until([&] { return gate_.held() > before; }, milliseconds(500));
    }
    REQUIRE(gate_.held() == kDataThreads);
  }
  void OpenGate() { gate_.Open(); }
  size_t lost() const {
    return static_cast<size_t>(
        std::count_if(data.begin(), data.end(), [](const auto& peer) { return peer->closed; }));
  }

 private:
  std::unique_ptr<Peer> NewPeer(const StreamClient::Options& options, const std::string& method) {
    auto peer =
        std::make_unique<Peer>(fmt::format("127.0.0.1:{}", server_->port()), options, &loop_);
    peer->Open(method);
    return peer;
  }

  PsService service_{{}};
  ServedCore ps_{&service_};
  RealClock clock_;
  CodecCounters counters_;
  HeldBytes held_{size_t{1} << 30};
  ParkedRequests parked_{ps_.core->admission()};
  Gate gate_;
  CompletionLoop loop_;
  StreamClient::Options control_, data_;
  std::unique_ptr<StreamServer> server_;

 public:
  std::unique_ptr<Peer> chief;
  std::vector<std::unique_ptr<Peer>> data;
};

TEST_CASE("the chief and health checks are answered while applies hold all data threads") {
  HeldServer server(/*patient=*/true);
  server.HoldDataThreads();
  for (int i = 2; i <= 20; ++i) {
    server.Ping();
    REQUIRE(server.Until([&] { return server.chief->frames == i; }));
  }
  server.chief->stream->Close(absl::OkStatus());
  REQUIRE(server.Until([&] { return server.chief->closed; }));
  server.chief->Open("/grpc.health.v1.Health/Check");
  server.chief->stream->Send(SerializeToFrame(v1::ChiefToPs()));  // no service is named
  REQUIRE(server.Until([&] { return server.chief->frames == 21; }));
}

TEST_CASE("a server whose applies hold all data threads for long is not taken for dead") {
  const bool patient = GENERATE(true, false);
  HeldServer server(patient);
  server.HoldDataThreads();
  const bool any_lost =
      server.Until([&] { return server.lost() > 0; }, testing::Scaled(milliseconds(4000)));
  CHECK(any_lost == !patient);
  // The control thread has acknowledged the keep-alives of the chief, which is not patient.
  CHECK_FALSE(server.chief->closed);
  server.Ping();
  CHECK(server.Until([&] { return server.chief->frames == 2; }));
  const auto late = server.NewControlPeer();
  server.OpenGate();
  if (!patient) return;
  CHECK(server.Until([&] {
    return std::all_of(server.data.begin(), server.data.end(),
                       [](const auto& peer) { return peer->frames == 1; });
  }));
  // A client that came meanwhile is served as soon as a data thread has accepted it.
  v1::ChiefToPs message;
  message.mutable_ping()->set_sent_unix_micros(1);
  late->stream->Send(SerializeToFrame(message));
  CHECK(server.Until([&] { return late->frames == 1; }));
}

}  // namespace
}  // namespace cohort::ps_test::control
