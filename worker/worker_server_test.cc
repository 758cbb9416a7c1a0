#include "worker/worker_server.h"

#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "common/base/crash_point.h"
#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/cluster/protocol_version.h"
#include "common/cluster/role_flags.h"
#include "common/cluster/run_secret.h"
#include "common/exchange/exchange_test_world.h"
#include "common/exchange/remote_access_test_server.h"
#include "common/graph/expr.h"
#include "common/graph/program_proto.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_client.h"
#include "common/testing/directory_test_util.h"
#include "worker/worker_options.h"

namespace cohort {
namespace {

using exchange_test::RealServer;
using exchange_test::World;

constexpr auto kLimit = std::chrono::seconds(30);

// A chief's end of the control stream, polled by the test.
class FakeChief : public StreamHandler {
 public:
  explicit FakeChief(int port) {
    client_ = *StreamClient::Create(fmt::format("127.0.0.1:{}", port), {});
    stream_ = client_->Open("/cohort.v1.Worker/Control", this, &loop_);
  }
  ~FakeChief() override { loop_.Shutdown(); }

  void OnFrame(Frame frame) override {
    v1::WorkerToChief message;
    REQUIRE(ParseFromFrame(frame, &message).ok());
    for (const auto& result : message.results().results()) results.push_back(result);
    for (const auto& result : message.hello().results()) results.push_back(result);
    if (message.has_results()) ++result_messages;
    if (message.request() != 0) answers[message.request()] = message;
  }
  void OnClosed(const absl::Status& status) override { closed = status; }

  void Send(v1::ChiefToWorker message) {
    message.set_generation(generation);
    stream_->Send(SerializeToFrame(message));
  }
  v1::WorkerToChief Ask(v1::ChiefToWorker message) {
    const uint64_t request = ++last_request_;
    message.set_request(request);
    Send(std::move(message));
    REQUIRE(Until([&] { return answers.count(request) != 0; }));
    return answers[request];
  }
  v1::WorkerToChief Adopt() {
    v1::ChiefToWorker message;
    message.mutable_adopt()->set_job("job");
    SetProtocolVersion(message.mutable_adopt());
    message.mutable_adopt()->set_chief_incarnation(generation + 10);
    return Ask(message);
  }
  // Also of what other threads do, which wakes no poll here.
  bool Until(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (!done() && std::chrono::steady_clock::now() < limit) {
      loop_.PollOnce(std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
    }
    return done();
  }

  uint64_t generation = 1;
  std::map<uint64_t, v1::WorkerToChief> answers;
  std::vector<v1::ClosureResult> results;
  int result_messages = 0;
  std::optional<absl::Status> closed;

 private:
  CompletionLoop loop_;
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;
  uint64_t last_request_ = 0;
};

// Pushes the sum of x to every element of the bias of World, and gives back what it pulled.
Program BiasProgram() {
  ProgramBuilder b("train");
  const int batch = b.AddSymbol("batch", 4);
  Expr x = b.Input("x", {DType::kFloat32, {{4, batch}}});
  const ValueType type{DType::kFloat32, {}};
  Expr w = b.Read("bias", type);
  Push push;
  push.variable = b.DeclareVariable("bias", type);
  push.kind = PushKind::kAssignAdd;
  push.value = ReduceSum(x).id();
  b.AddPush(push);
  b.AddOutput("bias", w);
  auto program = std::move(b).Build();
  REQUIRE(program.ok());
  return *std::move(program);
}

struct Cluster {
  explicit Cluster(Duration stop_wait = kLimit,
                   const std::shared_ptr<const Security>& of_servers = nullptr) {
    for (int ps = 0; ps < 2; ++ps) {
      real[ps].security = of_servers;
      real[ps].Start();
      world.routes.mutable_servers(ps)->set_address(fmt::format("127.0.0.1:{}", real[ps].port()));
    }
    WorkerServer::Options options;
    options.listen = {"127.0.0.1:0"};
    options.index = 1;
    options.incarnation = 5;
    options.stop_wait = stop_wait;
    options.log = log.get();
    options.on_done = [this] { done = true; };
    auto started = WorkerServer::Start(options);
    REQUIRE(started.ok());
    worker = *std::move(started);
  }

  // Adopts and brings the worker to where it can run closures.
  std::unique_ptr<FakeChief> Connect(uint64_t generation) {
    auto chief = std::make_unique<FakeChief>(worker->port());
    chief->generation = generation;
    hello = chief->Adopt().hello();
    v1::ChiefToWorker message;
    *message.mutable_routes() = world.routes;
    CHECK(chief->Ask(message).status().code() == 0);
    const Program program = BiasProgram();
    fingerprint = Fingerprint(program);
    message.mutable_program()->set_fingerprint(fingerprint);
    ProgramToProto(program, message.mutable_program()->mutable_program());
    CHECK(chief->Ask(message).status().code() == 0);
    return chief;
  }
  v1::ChiefToWorker Dispatch(uint64_t begin, uint64_t end) {
    v1::ChiefToWorker message;
    for (uint64_t id = begin; id < end; ++id) {
      v1::Closure* closure = message.mutable_dispatch()->add_closures();
      closure->set_id(id);
      closure->set_attempt(1);
      closure->set_timeline(1);
      closure->set_steps(1);
      closure->set_training(true);
      closure->set_program(fingerprint);
      const float one = 1;
      TensorToProto(Tensor::FromValues<float>({1}, {&one, 1}), closure->add_arguments());
    }
    return message;
  }
  float Bias() {
    MutexLock lock(&mu);
    return world.tablets[0].shards[5][0];
  }

  World world;
  Mutex mu;
  RealServer real[2] = {{&world.servers[0], &mu}, {&world.servers[1], &mu}};
  std::unique_ptr<Logger> log = Logger::Discard();
  std::atomic<bool> done{false};
  std::string fingerprint;
  v1::WorkerHello hello;
  std::unique_ptr<WorkerServer> worker;
};

TEST_CASE("a worker runs what it is sent, and its chief may go and come back") {
  Cluster cluster;
  auto chief = cluster.Connect(1);
  CHECK(cluster.hello.task().index() == 1);
  CHECK(cluster.hello.incarnation() == 5);
  chief->Send(cluster.Dispatch(1, 21));
  REQUIRE(chief->Until([&] { return chief->results.size() == 20; }));
  for (const auto& result : chief->results) {
    CHECK(StatusFromProto(result.status()).ok());
    CHECK(result.applied() == 1);  // the program's variable lies on one tablet
  }
  CHECK(cluster.Bias() == 20);
  CHECK(chief->result_messages < 20);
  CHECK(cluster.worker->exchange_counters().requests >= 21);

  chief.reset();
  chief = cluster.Connect(2);
  CHECK(cluster.hello.results_size() == 20);  // nothing was settled
  v1::ChiefToWorker more = cluster.Dispatch(21, 31);
  more.mutable_dispatch()->set_settled_watermark(21);
  chief->results.clear();
  chief->Send(more);
  REQUIRE(chief->Until([&] { return chief->results.size() == 10; }));
  CHECK(cluster.Bias() == 30);

  v1::ChiefToWorker end;
  end.mutable_shutdown()->set_job_finished(true);
  chief->Send(end);
  REQUIRE(chief->Until([&] { return cluster.done.load(); }));
  CHECK(cluster.worker->end()->job_finished);
  absl::Status ended;
  std::thread ends(
      [&] { ended = cluster.worker->Shutdown(absl::OkStatus(), std::chrono::seconds(1)); });
  CHECK(chief->Until([&] { return chief->closed.has_value(); }));
  ends.join();
  CHECK(ended.ok());
  CHECK(chief->closed->ok());
}

TEST_CASE("lost connections to servers are healed, each update is applied once") {
  Cluster cluster;
  auto chief = cluster.Connect(1);
  cluster.real[0].lose_requests = 2;
  chief->Send(cluster.Dispatch(1, 9));
  REQUIRE(chief->Until([&] { return chief->results.size() == 8; }));
  cluster.real[0].lose_responses = 2;
  chief->Send(cluster.Dispatch(9, 17));
  REQUIRE(chief->Until([&] { return chief->results.size() == 16; }));
  CHECK(cluster.Bias() == 16);
  CHECK(cluster.worker->exchange_counters().resends == 4);
}

TEST_CASE("a worker that is asked to end gives back what it cannot finish") {
  Cluster cluster;
  auto chief = cluster.Connect(1);
  cluster.real[0].silent = true;
  chief->Send(cluster.Dispatch(1, 4));
  REQUIRE(chief->Until([&] { return cluster.real[0].requests > 0; }));
  absl::Status ended;
  std::thread ends([&] {
    ended = cluster.worker->Shutdown(Unavailable("asked to end"), std::chrono::milliseconds(50));
  });
  CHECK(chief->Until([&] { return chief->closed.has_value(); }));
  ends.join();
  CHECK(ended.ok());
  REQUIRE(chief->results.size() == 3);
  for (const auto& result : chief->results) {
    CHECK(IsRetryable(StatusFromProto(result.status())));
  }
  CHECK(cluster.Bias() == 0);
}

TEST_CASE("a worker without the secret of its cluster ends at once with the reason") {
  testing::TestDirectory directory;
  REQUIRE(WriteNewSecret(directory / "secret").ok());
  const auto security = *Security::Create({.secret_file = directory / "secret"});
  Cluster cluster(kLimit, security);
  auto chief = cluster.Connect(1);
  CHECK(cluster.worker->Tick().ok());
  chief->Send(cluster.Dispatch(1, 2));
  absl::Status status;
  REQUIRE(chief->Until([&] { return !(status = cluster.worker->Tick()).ok(); }));
  CHECK(ExitCodeOf(status) == ExitCode::kConfig);
  const std::string message(status.message());
  INFO(message);
  CHECK(message.find("the stream does not carry the secret of this run") != message.npos);
  CHECK(message.find("--secret_file") != message.npos);
}

TEST_CASE("a step that never ends does not hold up the end of its worker") {
  static std::atomic<bool> begun = false;
  static std::promise<void> release;
  WatchCrashPoints([](std::string_view) {
    begun = true;
    release.get_future().wait();
  });
  REQUIRE(ArmCrashPoint("worker.result.made").ok());
  Cluster cluster(/*stop_wait=*/std::chrono::milliseconds(50));
  auto chief = cluster.Connect(1);
  chief->Send(cluster.Dispatch(1, 2));
  REQUIRE(chief->Until([&] { return begun.load(); }));
  absl::Status ended;
  std::thread ends([&] {
    ended = cluster.worker->Shutdown(Unavailable("asked to end"), std::chrono::milliseconds(10));
  });
  CHECK(chief->Until(
      [&] { return chief->closed.has_value(); }));  // the chief is notified all the same
  ends.join();
  CHECK(absl::IsDeadlineExceeded(ended));
  CHECK(std::string(ended.message()).find("step thread of worker:1") != std::string::npos);
  release.set_value();  // and the step ends, so that the test can
}

TEST_CASE("a taken port is an error that names it") {
  Cluster cluster;
  WorkerServer::Options options;
  options.listen = {fmt::format("127.0.0.1:{}", cluster.worker->port())};
  options.log = cluster.log.get();
  const auto second = WorkerServer::Start(options);
  CHECK(absl::IsAlreadyExists(second.status()));
}

TEST_CASE("a worker without unix sockets finds no server on its own host") {
  RoleContext context;
  context.bind = Address{"127.0.0.1", 1};
  context.host_id = "here";
  WorkerFlags flags;
  CHECK(MakeServerOptions(flags, context, {}).host_id == "here");
  flags.role.unix_socket_dir = "none";
  CHECK(MakeServerOptions(flags, context, {}).host_id.empty());
}

TEST_CASE("without a chief a worker names the chief that it waits for, and ends at the deadline") {
  std::vector<std::string> lines;
  LogOptions log_options;
  log_options.to_stderr = false;
  log_options.sink = [&](std::string_view line) { lines.emplace_back(line); };
  auto log = *Logger::Create(log_options);
  WorkerServer::Options options;
  options.listen = {"127.0.0.1:0"};
  options.address = "host1:2222";
  options.chief_address = "host0:2222";
  options.chief_wait = std::chrono::milliseconds(20);
  options.log = log.get();
  auto worker = *WorkerServer::Start(options);
  absl::Status status;
  const auto limit = std::chrono::steady_clock::now() + kLimit;
  while (status.ok() && std::chrono::steady_clock::now() < limit) status = worker->Tick();
  CHECK(absl::IsDeadlineExceeded(status));
  CHECK(std::string(status.message()).find("no chief dialed host1:2222 in") != std::string::npos);
}

}  // namespace
}  // namespace cohort
