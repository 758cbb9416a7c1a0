// What clients and snapshots can make a server hold.
#include <deque>
#include <memory>
#include <vector>

#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/stream.h"
#include "ps_server/core_test_util.h"
#include "ps_server/data_stream.h"
#include "ps_server/ps_service.h"

namespace cohort::ps_test::memory_bound {
namespace {

constexpr size_t kElements = size_t{1} << 18;
constexpr uint64_t kBytes = kElements * sizeof(float);  // 1 MB

// A client's end. It drops what it has received only when the test calls Read.
class LazyStream : public Stream {
 public:
  void Send(Frame frame) override { frames.push_back(std::move(frame)); }
  size_t queued_bytes() const override { return 0; }
  void Close(absl::Status) override {}
  void Abort() override { aborted = true; }
  StreamPeer peer() const override { return {"ipv4:127.0.0.1:1"}; }

  std::deque<Frame> frames;
  bool aborted = false;
};

// A server of one variable of a megabyte, which clients make hold at most a few of them.
class Server {
 public:
  explicit Server(uint64_t room)
      : ps_(0, nullptr, nullptr, {.block_bytes = 64 << 10, .run_bytes = kBytes},
            {.memory_bytes = room, .least_room = room}) {
    ps_.Adopt(1, 1);
    ps_.Assign(1, Layout({Variable("w", {kElements}, 0)}, Sgd(1)));
    ps_.RunBackground();
    context_ = std::make_shared<const RequestContext>(
        MakeRequestContext(ps_.core.get(), &counters_, &held_, &parked_, &pins_, 1 << 30));
    memory().answers()->OnSent([this] { ++sent; });
  }
  ~Server() { memory().answers()->OnSent(nullptr); }

  std::shared_ptr<const RequestContext> context() const { return context_; }
  ServerMemory& memory() { return *ps_.core->memory(); }
  TestCore& ps() { return ps_; }
  ParkedRequests& parked() { return parked_; }
  uint64_t superseded() { return ps_.core->superseded_bytes(); }
  uint64_t version() { return ps_.core->data_path()->tablets()->tablets[0]->version(); }
  // A push of a client that is served at once.
  void Update() {
    REQUIRE(ps_.Push(0, 0, closure_++, std::vector<float>(kElements, 1)).status() == v1::APPLIED);
  }
  uint64_t NextClosure() { return closure_++; }

  int sent = 0;

 private:
  TestCore ps_;
  CodecCounters counters_;
  HeldBytes held_{size_t{1} << 30};
  Pins pins_{size_t{1} << 30};
  ParkedRequests parked_{ps_.core->data_path(), ps_.core->admission()};
  std::shared_ptr<const RequestContext> context_;
  uint64_t closure_ = 0;
};

struct Client {
  explicit Client(Server* s) : server(s), handler(s->context(), stream) {}
  void Pull() {
    v1::PushPullHeader header = Header();
    v1::PullSection* const section = header.mutable_pull()->add_sections();
    section->set_term(1);
    section->add_entries();
    handler.OnFrame(encoder.Finish(header));
  }
  void Push(const StepMembership& step = {}) {
    v1::PushPullHeader header = Header();
    v1::PushPart* const push = header.mutable_push();
    push->mutable_id()->set_closure(server->NextClosure());
    push->set_timeline(1);
    push->set_weight(1);
    if (step.sync()) step.ToProto(push->mutable_step());
    v1::PushSection* const section = push->add_sections();
    section->set_term(1);
    section->add_entries()->set_kind(v1::GRADIENT);
    section->mutable_entries(0)->set_count(kElements);
    BufferRef values = BufferRef::Allocate(kBytes);
    std::fill_n(reinterpret_cast<float*>(values->data()), kElements, 1.0f);
    encoder.BeginPayload();
    encoder.Append(values, 0, kBytes);
    handler.OnFrame(encoder.Finish(header));
  }
  bool answered() const { return !stream->frames.empty(); }
  void Read() { stream->frames.clear(); }

  v1::PushPullHeader Header() {
    v1::PushPullHeader header;
    header.set_sequence(++sequence);
    header.set_generation(1);
    return header;
  }

  Server* const server;
  uint64_t sequence = 0;
  CodecCounters counters;
  PushPullEncoder encoder{&counters};
  std::shared_ptr<LazyStream> stream = std::make_shared<LazyStream>();
  DataStream handler;
};

TEST_CASE("clients that do not read make a server keep a bounded number of versions") {
  Server server(12 * kBytes);  // three answers
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<Client>(&server));
    clients.back()->Pull();
    server.Update();
    CHECK(server.memory().answers()->bytes() <= server.memory().most_answers());
    CHECK(server.superseded() <= server.memory().most_answers());
  }
  const auto answered = [&] {
    return std::ranges::count_if(clients, [](const auto& client) { return client->answered(); });
  };
  CHECK(answered() == 3);
  CHECK(server.memory().answers()->bytes() == 3 * kBytes);
  CHECK(server.superseded() == 3 * kBytes);
  // One that comes later does not overtake those that wait.
  clients[1]->Read();
  CHECK(server.sent == 1);
  Client late(&server);
  late.Pull();
  CHECK(!late.answered());
  for (size_t i = 3; i < 10; ++i) {
    server.parked().Release();
    CHECK(clients[i]->answered());
    CHECK((i == 9 || !clients[i + 1]->answered()));
    CHECK(server.memory().answers()->bytes() <= server.memory().most_answers());
    clients[i]->Read();
  }
  CHECK(!late.answered());
  server.parked().Release();
  CHECK(late.answered());
  clients.clear();
  late.Read();
  CHECK(server.memory().answers()->bytes() == 0);
  CHECK(server.superseded() == 0);
}

TEST_CASE("a client that takes nothing loses its stream if others wait for the memory") {
  Server server(4 * kBytes);  // one answer
  Client stuck(&server);
  stuck.Pull();
  Client next(&server);
  next.Pull();
  CHECK(!next.answered());
  server.memory().answers()->EndIdle(std::chrono::hours(1));
  CHECK(!stuck.stream->aborted);
  server.memory().answers()->EndIdle(Duration::zero());
  CHECK(stuck.stream->aborted);
  stuck.Read();  // as gRPC drops what is queued
  server.parked().Release();
  CHECK(next.answered());
}

TEST_CASE(
    "gradients that come before their turn wait beyond a limit, and the missing one comes in") {
  Server server(16 * kBytes);  // two of them are copied
  std::vector<std::unique_ptr<Client>> clients;
  const auto push = [&](uint32_t index) {
    clients.push_back(std::make_unique<Client>(&server));
    clients.back()->Push({.step = 1, .step_try = 1, .index = index});
    return clients.back()->answered();
  };
  const auto early = [&] { return server.ps().core->data_path()->EarlyBytes(); };
  CHECK(push(5));
  CHECK(push(3));
  CHECK(early() == 2 * kBytes);
  CHECK(!push(4));
  CHECK(!push(2));
  CHECK(!push(6));
  CHECK(early() == 2 * kBytes);
  server.parked().Tick();
  CHECK(early() == 2 * kBytes);
  CHECK(push(1));
  CHECK(push(0));
  CHECK(early() == 0);
  CHECK(std::ranges::all_of(clients, [](const auto& client) { return client->answered(); }));
  v1::ChiefToPs close;
  close.set_generation(1);
  close.mutable_close_step()->set_step(1);
  close.mutable_close_step()->set_step_try(1);
  close.mutable_close_step()->set_timeline(1);
  for (uint32_t i = 0; i < 7; ++i) close.mutable_close_step()->add_members()->set_index(i);
  server.ps().Deliver(1, close);
  CHECK(server.ps().Pull(0, 0)[0] == -1);
}

TEST_CASE("a push that would copy more than a snapshot may keep waits for its file") {
  Server server(4 * kBytes);  // half of a version
  server.ps().TakeSnapshot(1, 7, "/shared/cut");
  Client client(&server);
  client.Push();
  CHECK(!client.answered());
  CHECK(server.superseded() == 0);
  server.ps().RunBackground();
  server.parked().Release();
  CHECK(client.answered());
  CHECK(server.version() == 1);
  CHECK(server.ps().written_values == std::vector<float>(kElements, 0));
}

TEST_CASE("a server that is short of memory delays pushes, and no pulls") {
  Server server(4 * kBytes);
  CHECK(server.memory().Note(/*held=*/4 * kBytes, 0, 0));
  CHECK(!server.memory().Note(3 * kBytes, 0, 0));  // still
  Client client(&server);
  client.Push();
  CHECK(!client.answered());
  Client reader(&server);
  reader.Pull();
  CHECK(reader.answered());
  reader.Read();
  CHECK(server.memory().Note(0, 0, 0));
  server.parked().Release();
  CHECK(client.answered());
}

TEST_CASE("the room is what the limit leaves besides the values, and the machine is shared") {
  ServerMemory memory(1000, 1200, 10);
  memory.SetValues(200);
  CHECK(memory.limit() == 1000);
  CHECK(memory.room() == 800);
  memory.SetServers(3);
  CHECK(memory.limit() == 400);
  CHECK(memory.room() == 200);
  memory.SetServers(6);
  CHECK(memory.room() == 10);
  CHECK(ServerMemory(0).room() == ServerMemory::kUnknownRoom);
}

}  // namespace
}  // namespace cohort::ps_test::memory_bound
