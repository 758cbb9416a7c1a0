// What clients and snapshots can make a server hold.
#include <atomic>
#include <deque>
#include <memory>
#include <thread>
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
  explicit Server(uint64_t room, const ParkedRequests::Options& parked = {})
      : ps_(0, nullptr, nullptr, {.block_bytes = 64 << 10, .run_bytes = kBytes},
            {.memory_bytes = room, .least_room = room}),
        parked_(ps_.core->admission(), parked) {
    ps_.Adopt(1, 1);
    ps_.Assign(1, Layout({Variable("w", {kElements}, 0)}, Sgd(1)));
    ps_.RunBackground();
    context_ = std::make_shared<const RequestContext>(
        MakeRequestContext(ps_.core.get(), &counters_, &held_, &parked_, &pins_));
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
  void Close(uint64_t step, uint32_t members) {
    v1::ChiefToPs message;
    message.set_generation(1);
    v1::CloseStep* const close = message.mutable_close_step();
    close->set_step(step);
    close->set_step_try(1);
    close->set_timeline(1);
    for (uint32_t i = 0; i < members; ++i) close->add_members()->set_index(i);
    ps_.Deliver(1, message);
  }

  int sent = 0;

 private:
  TestCore ps_;
  CodecCounters counters_;
  HeldBytes held_{size_t{1} << 30};
  Pins pins_{size_t{1} << 30};
  ParkedRequests parked_;
  std::shared_ptr<const RequestContext> context_;
  uint64_t closure_ = 0;
};

struct Client {
  explicit Client(Server* s) : server(s), handler(s->context(), stream) {}
  void Pull(uint64_t step = 0) {
    v1::PushPullHeader header = Header();
    header.mutable_pull()->set_step(step);
    AddPull(&header);
    handler.OnFrame(encoder.Finish(header));
  }
  void Push(const StepMembership& step = {}) { SendPush(Header(), step); }
  void PushAndPull() {
    v1::PushPullHeader header = Header();
    AddPull(&header);
    SendPush(std::move(header), {});
  }
  bool answered() const { return !stream->frames.empty(); }
  void Read() { stream->frames.clear(); }

  void SendPush(v1::PushPullHeader header, const StepMembership& step) {
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
  static void AddPull(v1::PushPullHeader* header) {
    v1::PullSection* const section = header->mutable_pull()->add_sections();
    section->set_term(1);
    section->add_entries();
  }
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

TEST_CASE("a synchronous push waits for room only if the values beside it would be sent now") {
  Server server(4 * kBytes);  // one answer
  Client stuck(&server);
  stuck.Pull();
  const auto push = [](Client* client, uint32_t index, uint64_t pulled_step) {
    v1::PushPullHeader header = client->Header();
    Client::AddPull(&header);
    header.mutable_pull()->set_step(pulled_step);
    client->SendPush(std::move(header), {.step = 1, .step_try = 1, .index = index});
  };
  Client trains(&server);
  push(&trains, 0, /*pulled_step=*/2);
  CHECK(trains.answered());  // LATER
  Client evaluates(&server);
  push(&evaluates, 1, /*pulled_step=*/0);
  CHECK(!evaluates.answered());
  stuck.Read();
  server.parked().Release();
  CHECK(evaluates.answered());
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
  server.parked().Release();
  CHECK(early() == 2 * kBytes);
  CHECK(push(1));
  CHECK(push(0));
  CHECK(early() == 0);
  CHECK(std::ranges::all_of(clients, [](const auto& client) { return client->answered(); }));
  server.Close(1, /*members=*/7);
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

TEST_CASE("a push waits for the file of a snapshot only for a time, and not for its sync") {
  Server server(4 * kBytes, {.snapshot_patience = Duration::zero()});
  server.ps().TakeSnapshot(1, 7, "/shared/cut");
  Client client(&server);
  client.Push();
  CHECK(!client.answered());
  server.parked().Release();
  CHECK(client.answered());
  CHECK(server.version() == 1);
  server.ps().RunBackground();
  CHECK(server.ps().written_values == std::vector<float>(kElements, 0));
  PendingSnapshots snapshots;
  const auto job = std::make_shared<SnapshotJob>();
  snapshots.Add(job);
  CHECK(snapshots.HoldAny());
  job->DropAll();
  CHECK(!snapshots.HoldAny());
  CHECK(!snapshots.empty());
}

TEST_CASE("a server that is short of memory copies no more early gradients than others") {
  Server server(16 * kBytes, {.delay = Duration::zero()});  // two of them are copied
  REQUIRE(server.memory().Note(/*held=*/16 * kBytes, 0, 0));
  std::vector<std::unique_ptr<Client>> clients;
  const auto push = [&](uint32_t index) {
    clients.push_back(std::make_unique<Client>(&server));
    clients.back()->Push({.step = 1, .step_try = 1, .index = index});
    server.parked().Release();
    return clients.back()->answered();
  };
  CHECK(push(5));
  CHECK(push(3));
  CHECK(!push(4));
  CHECK(server.ps().core->data_path()->EarlyBytes() == 2 * kBytes);
  CHECK(push(0));
}

TEST_CASE("a server that is short of memory keeps the limit of answers") {
  Server server(4 * kBytes, {.delay = Duration::zero()});  // one answer
  REQUIRE(server.memory().Note(/*held=*/4 * kBytes, 0, 0));
  Client first(&server);
  first.Pull();
  CHECK(first.answered());
  Client second(&server);
  second.PushAndPull();
  server.parked().Release();
  CHECK(!second.answered());
  first.Read();
  server.parked().Release();
  CHECK(second.answered());
}

TEST_CASE("the figures of the ledger are there while a tablet is busy") {
  Server server(16 * kBytes);
  Client client(&server);
  client.Push({.step = 1, .step_try = 1, .index = 3});
  Tablet& tablet = *server.ps().core->data_path()->tablets()->tablets[0];
  uint64_t early = 0;
  uint64_t superseded = 1;
  const auto busy = [&](const ShardInfo&, int, int64_t, int64_t, std::span<uint8_t>) {
    std::thread([&] {
      early = server.ps().core->data_path()->EarlyBytes();
      superseded = server.superseded();
    }).join();
    return absl::OkStatus();
  };
  REQUIRE(tablet.Fill(busy).ok());
  CHECK(early == kBytes);
  CHECK(superseded == 0);
}

// Nobody ticks here: a pull that is kept just behind the close of its step would wait forever.
TEST_CASE("a pull that comes while its step is opened is answered") {
  Server server(size_t{1} << 40);
  Client client(&server);
  constexpr uint64_t kSteps = 100000;
  std::atomic<uint64_t> begun{1};
  std::atomic<uint64_t> closed{1};
  std::thread closer([&] {
    for (uint64_t step = 1; step < kSteps; ++step) {
      while (begun.load() <= step) std::this_thread::yield();
      server.Close(step, 0);
      server.parked().Release();
      closed.store(step + 1);
    }
  });
  uint64_t lost = 0;
  for (uint64_t step = 2; step <= kSteps; ++step) {
    begun.store(step);
    client.Pull(step);
    while (closed.load() < step) std::this_thread::yield();
    lost += client.answered() ? 0 : 1;
    server.parked().Release();
    client.Read();
  }
  closer.join();
  CHECK(lost == 0);
}

TEST_CASE("the room is what the limit leaves besides the values, and the machine is shared") {
  ServerMemory memory(1000, 1200, 10);
  memory.SetValues(200);
  CHECK(memory.limit() == 750);  // a quarter is for what is not counted
  CHECK(memory.room() == 550);
  memory.SetServers(3);
  CHECK(memory.limit() == 300);
  CHECK(memory.room() == 100);
  memory.SetServers(6);
  CHECK(memory.room() == 10);
  CHECK(ServerMemory(0).room() == ServerMemory::kUnknownRoom);
}

}  // namespace
}  // namespace cohort::ps_test::memory_bound
