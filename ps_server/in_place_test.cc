// Steps of clients that read weights where the server has them, over real unix sockets.
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/base/clock.h"
#include "common/exchange/remote_access.h"
#include "common/rpc/push_pull/shared_memory.h"
#include "common/rpc/stream/stream_server.h"
#include "proto/worker.pb.h"
#include "ps_server/core_test_util.h"
#include "ps_server/ps_service.h"

namespace cohort::ps_test::in_place {
namespace {

constexpr int64_t kElements = 64 << 10;
constexpr size_t kBytes = kElements * sizeof(float);

ShardOptions LentShards() {
  return {.block_bytes = 16 << 10, .run_bytes = kBytes, .allocate_run = SharedMemory::Allocate};
}

// A server with one variable `w` of kElements zeros, and SGD with a learning rate of 1.
class Server {
 public:
  explicit Server(const std::string& path, size_t max_superseded_bytes = size_t{1} << 30)
      : core_(0, nullptr, nullptr, LentShards()),
        service_({.max_superseded_bytes = max_superseded_bytes}) {
    core_.Adopt(1, 1);
    const v1::Layout layout = Layout({Variable("w", {kElements}, 0)}, Sgd(1));
    core_.Assign(1, layout);
    core_.RunBackground();
    StreamServer::Options listen;
    listen.listen = {"unix:" + path};
    auto server = StreamServer::Start(listen, service_.Methods(core_.core.get(), &clock_));
    INFO(server.status());
    REQUIRE(server.ok());
    server_ = *std::move(server);
    routes_.set_timeline(1);
    *routes_.mutable_layout() = layout;
    routes_.add_terms(1);
    v1::PsRoute* const route = routes_.add_servers();
    route->set_address("127.0.0.1:1");
    route->set_host_id("here");
    route->set_unix_socket(path);
  }

  const v1::Routes& routes() const { return routes_; }
  size_t superseded_bytes() { return service_.pins()->superseded_bytes(); }

 private:
  RealClock clock_;
  TestCore core_;
  PsService service_;
  std::unique_ptr<StreamServer> server_;
  v1::Routes routes_;
};

// A worker's end.
class Client {
 public:
  Client(const Server& server, uint64_t first_closure) : closure_(first_closure) {
    RemoteAccessOptions options;
    options.host_id = "here";
    remote_ = std::make_unique<RemoteAccess>(options);
    remote_->thread()->SetGeneration(1);
    remote_->thread()->SetRoutes(std::make_shared<v1::Routes>(server.routes()));
    VariableDecl decl{"w", {DType::kFloat32, {{kElements}}}};
    access_ = remote_->ForProgram({&decl, 1});
    gradients_ = remote_->AllocatePushAreas(kBytes);
    REQUIRE(gradients_);
  }

  // Pulls, after a push of a gradient whose elements are all `gradient` if it is not 0.
  void Step(float gradient, uint32_t lane = 0) {
    std::fill_n(gradients(), kElements, gradient);
    const PushItem item{0, PushKind::kGradient, false, {}, gradients(), 0};
    PushBatch push{{}, {&item, 1}};
    push.stamp = {.closure = closure_++, .attempt = 1, .timeline = 1, .weight = 1};
    push.lane = lane;
    lent_ = copied_.data();  // the access clears it
    const PullItem pulled{
        .variable = 0, .destination = copied_.data(), .lent = lends ? &lent_ : nullptr};
    PullBatch pull{.items = {&pulled, 1}, .lane = lane};
    if (!lends) lent_ = nullptr;
    const auto result = access_->Exchange(gradient == 0 ? nullptr : &push, &pull);
    INFO(result.status());
    REQUIRE(result.ok());
  }
  // Begins the push of such a gradient, and gives it up before the server has answered, or after
  // it.
  void GiveUp(float gradient) {
    std::fill_n(gradients(), kElements, gradient);
    const PushItem item{0, PushKind::kGradient, false, {}, gradients(), 0};
    PushBatch push{{}, {&item, 1}};
    push.stamp = {.closure = closure_++, .attempt = 1, .timeline = 1, .weight = 1};
    REQUIRE(access_->Begin(&push, nullptr).ok());
    remote_->thread()->Interrupt();
    const auto result = access_->Finish();
    CHECK((result.ok() || absl::IsCancelled(result.status())));
  }
  // Steps until values are lent: the ends map each other's memory first.
  void Warm() {
    for (int i = 0; i < 3; ++i) Step(0);
    REQUIRE(lent());
  }

  bool lent() const { return lent_ != nullptr; }
  const float* values() const {
    return lent_ != nullptr ? static_cast<const float*>(lent_) : copied_.data();
  }
  // True if all values are this one.
  bool AllAre(float value) const {
    return std::all_of(values(), values() + kElements, [=](float v) { return v == value; });
  }
  RemoteAccess::Counters counters() const { return remote_->counters(); }
  float* gradients() { return reinterpret_cast<float*>(gradients_->data()); }

  bool lends = true;

 private:
  uint64_t closure_;
  std::unique_ptr<RemoteAccess> remote_;
  std::unique_ptr<VariableAccess> access_;
  BufferRef gradients_;
  std::vector<float> copied_ = std::vector<float>(kElements);
  const void* lent_ = nullptr;
};

std::string SocketPath() { return fmt::format("/tmp/cohort-in-place-{}.sock", getpid()); }

TEST_CASE("a client reads weights in place once it has mapped them, and copies none") {
  Server server(SocketPath());
  Client client(server, 1);
  client.Warm();
  const uint64_t copied = client.counters().bytes_copied;
  const uint64_t lent = client.counters().bytes_lent;
  for (int step = 1; step <= 5; ++step) {
    client.Step(1);
    CHECK(client.lent());
    CHECK(client.AllAre(-static_cast<float>(step)));
  }
  CHECK(client.counters().bytes_copied == copied);
  CHECK(client.counters().bytes_lent == lent + 5 * kBytes);
  // Only this client reads: its push ends the pin, and the apply is in place.
  CHECK(server.superseded_bytes() == 0);
  client.lends = false;
  client.Step(1);
  CHECK(client.AllAre(-6));
}

TEST_CASE("a server reads gradients where they are, and copies none") {
  Server server(SocketPath());
  Client client(server, 1);
  client.Step(1);
  client.Step(1);
  const RemoteAccess::Counters before = client.counters();
  for (int step = 3; step <= 6; ++step) client.Step(1);
  CHECK(client.AllAre(-6));
  const RemoteAccess::Counters after = client.counters();
  CHECK(after.bytes_in_place == before.bytes_in_place + 4 * kBytes);
  CHECK(after.bytes_placed == before.bytes_placed);
  CHECK(after.areas_renewed == 0);
}

TEST_CASE("a gradient that is given up is applied as it was, or not at all") {
  Server server(SocketPath());
  Client client(server, 1);
  for (int i = 0; i < 3; ++i) client.Step(1);
  Client reader(server, 1000);
  float most = -3;
  for (int i = 0; i < 20; ++i) {
    client.GiveUp(1);
    std::fill_n(client.gradients(), kElements, 1e6f);  // what the next step writes
    most -= 1;
    reader.Step(0);
    const float value = reader.values()[0];
    CHECK(reader.AllAre(value));
    CHECK(value >= most);
    CHECK(value <= -3);
  }
  client.Step(1);
  CHECK(client.values()[0] >= most - 1);
  CHECK(client.AllAre(client.values()[0]));
}

TEST_CASE("what a client reads stays as it is while another one pushes") {
  Server server(SocketPath());
  Client reader(server, 1);
  Client writer(server, 1000);
  reader.Warm();
  writer.Warm();
  for (int step = 1; step <= 100; ++step) writer.Step(1);
  CHECK(writer.AllAre(-100));
  CHECK(reader.AllAre(0));
  CHECK(server.superseded_bytes() == kBytes);
  reader.Step(1);
  CHECK(reader.AllAre(-101));
  CHECK(server.superseded_bytes() == kBytes);  // what the writer reads
  writer.Step(0);
  CHECK(writer.AllAre(-101));
  CHECK(server.superseded_bytes() == 0);
}

TEST_CASE("values that were pulled ahead in another lane stay as they are") {
  Server server(SocketPath());
  Client client(server, 1);
  client.Warm();
  client.Step(0, /*lane=*/0);
  const float* const first = client.values();
  client.Step(1, /*lane=*/1);
  client.Step(1, /*lane=*/1);
  client.Step(1, /*lane=*/1);
  CHECK(client.AllAre(-3));
  CHECK(std::all_of(first, first + kElements, [](float v) { return v == 0; }));
  CHECK(server.superseded_bytes() == kBytes);
  client.Step(1, /*lane=*/0);
  client.Step(1, /*lane=*/1);
  CHECK(client.AllAre(-5));
}

TEST_CASE("above the limit of superseded versions, values are copied") {
  Server server(SocketPath(), /*max_superseded_bytes=*/kBytes - 1);
  Client reader(server, 1);
  Client writer(server, 1000);
  reader.Warm();
  writer.Warm();
  writer.Step(1);
  CHECK(server.superseded_bytes() == kBytes);
  CHECK_FALSE(writer.lent());
  CHECK(writer.AllAre(-1));
  CHECK(reader.AllAre(0));
  reader.Step(0);
  CHECK(reader.AllAre(-1));
  writer.Step(1);
  writer.Step(0);
  writer.Step(0);
  CHECK(writer.AllAre(-2));
}

TEST_CASE("the end of a stream does not end what its client reads") {
  Server server(SocketPath());
  Client writer(server, 1000);
  writer.Warm();
  {
    Client reader(server, 1);
    reader.Warm();
  }
  writer.Step(1);
  // The process of the reader, this one, lives.
  CHECK(server.superseded_bytes() == kBytes);
}

}  // namespace
}  // namespace cohort::ps_test::in_place
