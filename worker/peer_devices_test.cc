// Layers that run on another worker, over loopback.
#include "worker/peer_devices.h"

#include <catch2/catch.hpp>
#include <thread>

#include "common/base/status.h"
#include "common/exec/local_devices.h"
#include "common/exec/step_test_util.h"
#include "common/rpc/stream/stream_server.h"
#include "worker/segment_service.h"

namespace cohort {
namespace {

using testing::Type;

Logger* TestLog() {
  static const auto& log = *new std::unique_ptr<Logger>(*Logger::Create({}));
  return log.get();
}

// The part of a worker that runs layers of others.
class PeerWorker {
 public:
  explicit PeerWorker(int index, int port = 0, size_t programs = 64)
      : service_({.worker = index, .incarnation = 7, .programs = programs}, &devices_, &registry_,
                 TestLog()) {
    StreamServer::Options options;
    options.listen = {fmt::format("127.0.0.1:{}", port)};
    auto server = StreamServer::Start(options, service_.Methods());
    INFO(server.status());
    REQUIRE(server.ok());
    server_ = *std::move(server);
  }
  ~PeerWorker() { server_->Shutdown(Unavailable("it has ended"), std::chrono::milliseconds(0)); }

  int port() const { return server_->port(); }
  // Segments that ran here.
  std::string metrics() const { return registry_.Text(); }

 private:
  MetricsRegistry registry_;
  LocalDevices devices_{{}, {}, 1};
  SegmentService service_;
  std::unique_ptr<StreamServer> server_;
};

// dense -> dropout on `device` -> dense, with gradients.
Program Model(const std::string& device, int64_t inputs = 5) {
  ProgramBuilder b("model");
  const int batch = b.AddSymbol("batch", 8);
  const Expr x = b.Input("x", Type(DType::kFloat32, {{8, batch}, {inputs}}));
  const Expr labels = b.Input("labels", Type(DType::kInt64, {{8, batch}}));
  const Expr first = Relu(MatMul(x, b.Read("first", Type(DType::kFloat32, {{inputs}, {6}}))));
  b.SetScope("middle");
  b.SetDevice(device);
  const Expr middle =
      Dropout(Tanh(MatMul(first, b.Read("middle", Type(DType::kFloat32, {{6}, {6}})))), 0.3, 1)
          .first;
  b.SetDevice("");
  const Expr logits = MatMul(middle, b.Read("last", Type(DType::kFloat32, {{6}, {10}})));
  const Expr loss = ReduceSum(SparseSoftmaxCrossEntropy(labels, logits));
  b.SetLoss(DimSize(labels, 0, DType::kFloat32));
  b.AddOutput("logits", logits);
  REQUIRE(PushGradients(&b, loss).ok());
  auto program = std::move(b).Build();
  INFO(program.status());
  REQUIRE(program.ok());
  return *std::move(program);
}

std::unique_ptr<Executable> Compiled(const Program& program, SegmentDevices* devices) {
  auto executable = Executable::Compile(program, {.segment_devices = devices});
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *std::move(executable);
}

absl::Status Prepare(Executable* e, int64_t count) {
  COHORT_RETURN_IF_ERROR(e->Bind(testing::MlpBatch<float>(count, 5, 1)));
  COHORT_RETURN_IF_ERROR(e->Prepare({.seed = 4, .place = 9, .ordinal = 2}));
  testing::FillPulls<float>(e);
  return absl::OkStatus();
}

std::vector<float> Results(Executable* e) {
  const Tensor logits = e->output(0);
  std::vector<float> all(logits.values<float>().begin(), logits.values<float>().end());
  for (const PushItem& push : e->pushes()) {
    const auto* const values = static_cast<const float*>(push.value);
    const ValueType& type = e->program().variables[static_cast<size_t>(push.variable)].type;
    all.insert(all.end(), values, values + CapacityElements(type));
  }
  return all;
}

PeerDevices::Options OptionsFor(int port, Duration timeout = std::chrono::seconds(30)) {
  PeerDevices::Options options;
  options.worker = 0;
  options.addresses = {{0, "127.0.0.1:1"}, {1, fmt::format("127.0.0.1:{}", port)}};
  options.timeout = timeout;
  options.log = TestLog();
  return options;
}

TEST_CASE("A layer on another worker computes the same bits", "[peer_devices]") {
  PeerWorker peer(1);
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(peer.port()), &local);
  const auto whole = Compiled(Model(""), nullptr);
  const auto cut = Compiled(Model("worker:1/cpu:0"), &devices);
  for (const int64_t count : {8, 3, 1, 8}) {
    REQUIRE(Prepare(whole.get(), count).ok());
    REQUIRE(whole->Run().ok());
    REQUIRE(Prepare(cut.get(), count).ok());
    const absl::Status run = cut->Run();
    INFO(run);
    REQUIRE(run.ok());
    CHECK(Results(cut.get()) == Results(whole.get()));
  }
  CHECK(devices.counters().segments == 8);  // forward and backward of four steps
  CHECK(devices.counters().bytes_sent > 0);
  // The last step, there and back.
  CHECK(cut->transfer_bytes() > 8 * 6 * 4 * 2);
  CHECK(peer.metrics().find("cohort_worker_segments_total 8") != std::string::npos);
}

TEST_CASE("A device of the worker itself needs no connection", "[peer_devices]") {
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(1), &local);
  CHECK(devices.Resolve("worker:0/cpu:2") == "cpu:2");
  CHECK(devices.Resolve("worker:0/cpu") == "");
  CHECK(devices.Resolve("") == "");
  CHECK(devices.Resolve("worker:1/cpu") == "worker:1/cpu:0");
  const auto cut = Compiled(Model("worker:0/cpu:1"), &devices);
  REQUIRE(Prepare(cut.get(), 8).ok());
  CHECK(cut->Run().ok());
  CHECK(devices.counters().segments == 0);
}

TEST_CASE("A worker that has dropped the programs gets them again", "[peer_devices]") {
  PeerWorker peer(1, 0, /*programs=*/1);
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(peer.port()), &local);
  const auto cut = Compiled(Model("worker:1/cpu:0"), &devices);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(Prepare(cut.get(), 8).ok());
    REQUIRE(cut->Run().ok());
  }
  CHECK(devices.counters().resends >= 4);  // both segments from the second step on
}

TEST_CASE("A lost worker is waited for, and the step continues with its next process",
          "[peer_devices]") {
  auto peer = std::make_unique<PeerWorker>(1);
  const int port = peer->port();
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(port), &local);
  const auto cut = Compiled(Model("worker:1/cpu:0"), &devices);
  REQUIRE(Prepare(cut.get(), 8).ok());
  REQUIRE(cut->Run().ok());
  const std::vector<float> expected = Results(cut.get());
  peer.reset();
  REQUIRE(Prepare(cut.get(), 8).ok());
  absl::Status run;
  std::thread step([&] { run = cut->Run(); });
  peer = std::make_unique<PeerWorker>(1, port);
  step.join();
  INFO(run);
  REQUIRE(run.ok());
  CHECK(Results(cut.get()) == expected);
}

TEST_CASE("A worker that stays away fails the step as retryable, by name", "[peer_devices]") {
  const int port = PeerWorker(1).port();  // nobody listens there any more
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(port, std::chrono::milliseconds(300)), &local);
  const auto cut = Compiled(Model("worker:1/cpu:0"), &devices);
  REQUIRE(Prepare(cut.get(), 8).ok());
  const absl::Status run = cut->Run();
  CHECK(absl::IsUnavailable(run));
  CHECK(IsRetryable(run));
  REQUIRE(GetFailure(run).has_value());
  CHECK(GetFailure(run)->role == "worker");
  CHECK(GetFailure(run)->index == 1);
  CHECK(std::string(run.message()).find(fmt::format("worker:1 (127.0.0.1:{})", port)) !=
        std::string::npos);
}

TEST_CASE("An interrupt ends the wait for a lost worker", "[peer_devices]") {
  const int port = PeerWorker(1).port();
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(port), &local);
  const auto cut = Compiled(Model("worker:1/cpu:0"), &devices);
  REQUIRE(Prepare(cut.get(), 8).ok());
  absl::Status run;
  std::thread step([&] { run = cut->Run(); });
  devices.Interrupt();
  step.join();
  CHECK(absl::IsCancelled(run));
}

TEST_CASE("Errors of the other worker name it", "[peer_devices]") {
  PeerWorker peer(2);  // TF_CONFIG of worker 0 has its address under another index
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(peer.port()), &local);
  const auto cut = Compiled(Model("worker:1/cpu:0"), &devices);
  REQUIRE(Prepare(cut.get(), 8).ok());
  const std::string wrong(cut->Run().message());
  CHECK(wrong.find("a layer for worker:1 came to worker:2") != std::string::npos);

  PeerDevices gpus(OptionsFor(PeerWorker(1).port()), &local);
  const auto unknown = Executable::Compile(Model("worker:7/cpu:0"), {.segment_devices = &gpus});
  CHECK(absl::IsNotFound(unknown.status()));
  CHECK(std::string(unknown.status().message()).find("worker:7") != std::string::npos);
}

TEST_CASE("A device that the other worker lacks is refused by it", "[peer_devices]") {
  PeerWorker peer(1);
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor(peer.port()), &local);
  const auto cut = Compiled(Model("worker:1/cuda:900"), &devices);
  REQUIRE(Prepare(cut.get(), 8).ok());
  const absl::Status run = cut->Run();
  INFO(run);
  CHECK(!run.ok());
  CHECK(!IsRetryable(run));
  CHECK(std::string(run.message()).find("cuda:900") != std::string::npos);
  CHECK(std::string(run.message()).find("worker:1 (") != std::string::npos);
}

TEST_CASE("A server that runs no layers is refused at once", "[peer_devices]") {
  StreamServer::Options options;
  options.listen = {"127.0.0.1:0"};
  const auto server = StreamServer::Start(options, {});
  REQUIRE(server.ok());
  LocalDevices local({}, {}, 1);
  PeerDevices devices(OptionsFor((*server)->port()), &local);
  const auto cut = Compiled(Model("worker:1/cpu:0"), &devices);
  REQUIRE(Prepare(cut.get(), 8).ok());
  const absl::Status run = cut->Run();
  CHECK(absl::IsFailedPrecondition(run));
  CHECK(!IsRetryable(run));
}

}  // namespace
}  // namespace cohort
