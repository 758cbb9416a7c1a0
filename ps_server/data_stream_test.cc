#include "ps_server/data_stream.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/stream/stream_client.h"
#include "common/rpc/stream/stream_server.h"
#include "common/testing/time_test_util.h"
#include "ps_server/core_test_util.h"
#include "ps_server/ps_service.h"

namespace cohort::ps_test {
namespace {

// Records a stream's answers and its end.
class RecordingStream : public Stream {
 public:
  void Send(Frame frame) override {
    ++answers;
    last = std::move(frame);
  }
  size_t queued_bytes() const override { return 0; }
  void Close(absl::Status status) override { closed = std::move(status); }
  void Abort() override {}
  StreamPeer peer() const override { return {"ipv4:127.0.0.1:1"}; }

  int answers = 0;
  Frame last;
  std::optional<absl::Status> closed;
};

// A client's end of a DataStream.
struct Client {
  Client(TestCore* ps, HeldBytes* held)
      : parked(ps->core->admission(), {.life_sign_every = Duration::zero()}),
        handler(
            std::make_unique<DataStream>(std::make_shared<const RequestContext>(MakeRequestContext(
                                             ps->core.get(), &counters, held, &parked, &pins)),
                                         stream)) {}
  // A message without sections.
  void SendEmpty(bool more) {
    v1::PushPullHeader header;
    header.set_sequence(1);
    header.set_more(more);
    handler->OnFrame(encoder.Finish(header));
  }
  // `entries` of them, each of one element, in one message.
  void SendElements(uint64_t entries, bool more) {
    v1::PushPullHeader header;
    header.set_sequence(1);
    header.set_more(more);
    v1::PushSection* section = header.mutable_push()->add_sections();
    const BufferRef value = BufferRef::Allocate(sizeof(float));
    std::memset(value->data(), 0, sizeof(float));
    for (uint64_t i = 0; i < entries; ++i) {
      v1::PushEntry* entry = section->add_entries();
      entry->set_kind(v1::GRADIENT);
      entry->set_begin(i);
      entry->set_count(1);
      encoder.BeginPayload();
      encoder.Append(value, 0, sizeof(float));
    }
    handler->OnFrame(encoder.Finish(header));
  }
  // One element of a dense gradient.
  void SendElement(uint64_t begin, bool more) {
    v1::PushPullHeader header;
    header.set_sequence(1);
    header.set_more(more);
    v1::PushEntry* entry = header.mutable_push()->add_sections()->add_entries();
    entry->set_kind(v1::GRADIENT);
    entry->set_begin(begin);
    entry->set_count(1);
    const BufferRef value = BufferRef::Allocate(sizeof(float));
    std::memset(value->data(), 0, sizeof(float));
    encoder.BeginPayload();
    encoder.Append(value, 0, sizeof(float));
    handler->OnFrame(encoder.Finish(header));
  }

  Pins pins{size_t{1} << 30};
  ParkedRequests parked;
  CodecCounters counters;
  PushPullEncoder encoder;
  std::shared_ptr<RecordingStream> stream = std::make_shared<RecordingStream>();
  std::unique_ptr<StreamHandler> handler;
};

TEST_CASE("of messages without payload nothing is held") {
  TestCore ps;
  HeldBytes held(1 << 30);
  Client client(&ps, &held);
  for (int i = 0; i < 100'000; ++i) client.SendEmpty(/*more=*/true);
  CHECK(held.bytes() < 4096);
  client.SendEmpty(/*more=*/false);
  CHECK(client.stream->answers == 1);
  CHECK_FALSE(client.stream->closed.has_value());
}

// Its client counts a request without a sign of life as lost.
TEST_CASE("a pull that waits for its step gets signs of life, again and again") {
  TestCore ps;
  ps.Adopt(1, 1);
  ps.Assign(1, Layout({Variable("w", {4}, 5)}, Sgd(1)));
  ps.RunBackground();
  HeldBytes held(1 << 30);
  Client client(&ps, &held);
  v1::PushPullHeader header;
  header.set_sequence(9);
  header.set_generation(1);
  header.mutable_pull()->set_step(2);
  v1::PullSection* const section = header.mutable_pull()->add_sections();
  section->set_term(1);
  section->add_entries();
  client.handler->OnFrame(client.encoder.Finish(header));
  CHECK(client.stream->answers == 0);
  for (int signs = 1; signs <= 3; ++signs) {
    client.parked.SendLifeSigns();
    REQUIRE(client.stream->answers == signs);
    PushPullDecoder decoder;
    v1::PushPullResponseHeader sign;
    REQUIRE(decoder.Decode(std::move(client.stream->last), &sign).ok());
    CHECK(sign.sequence() == 9);
    CHECK(sign.more());
    CHECK(sign.pulls_size() == 0);
  }
  ps.Assign(1, Layout({Variable("w", {4}, 5)}, Sgd(1)), /*timeline=*/2);
  ps.RunBackground();
  client.parked.Release();
  CHECK(client.stream->answers == 4);
  client.parked.SendLifeSigns();
  CHECK(client.stream->answers == 4);
}

TEST_CASE("what a request holds is counted with all that it takes, until it ends") {
  TestCore ps;
  constexpr uint64_t kParts = 20'000;
  SECTION("by its last message, or with its stream") {
    HeldBytes held(1 << 30);
    Client client(&ps, &held);
    for (const bool ended : {true, false}) {
      for (uint64_t i = 0; i < kParts; ++i) client.SendElement(i, /*more=*/true);
      CHECK(held.bytes() > kParts * 300);
      CHECK(held.bytes() < kParts * 1500);
      ended ? client.SendElement(kParts, false) : client.handler->OnClosed(absl::OkStatus());
      CHECK(held.bytes() < (ended ? size_t{1} << 20 : 1));  // kept for the next one
    }
    CHECK(client.stream->answers == 1);
  }
  // A client would repeat a request for which memory is short, so it gets an answer.
  SECTION("or until it can never fit") {
    HeldBytes held(64 << 10);
    Client client(&ps, &held);
    uint64_t sent = 0;
    while (!client.stream->closed.has_value() && sent < kParts) client.SendElement(sent++, true);
    CHECK(sent < 200);  // each has 4 bytes
    REQUIRE(client.stream->closed.has_value());
    CHECK(held.bytes() == 0);
    REQUIRE(client.stream->answers == 1);
    PushPullDecoder decoder;
    v1::PushPullResponseHeader answer;
    REQUIRE(decoder.Decode(std::move(client.stream->last), &answer).ok());
    CHECK(answer.sequence() == 1);
    CHECK(answer.error().code() == static_cast<int>(absl::StatusCode::kFailedPrecondition));
    CHECK_THAT(answer.error().message(), Catch::Contains("and the memory of this server leaves"));
  }
}

TEST_CASE("what a stream keeps for its next request is bounded, and counted if it is unusual") {
  TestCore ps;
  HeldBytes held(GENERATE(size_t{1} << 30, size_t{3} << 20));
  const bool ample = held.most() == size_t{1} << 30;
  {
    Client client(&ps, &held);
    client.SendElements(1, /*more=*/false);
    CHECK(held.bytes() == 0);
    for (int i = 0; i < 7; ++i) client.SendElements(1000, /*more=*/true);
    client.SendElements(1000, /*more=*/false);
    CHECK(client.stream->answers == 2);
    CHECK(held.bytes() > size_t{64} << 10);
    CHECK(held.bytes() < size_t{1} << 20);
    if (!ample) {
      Client others[8] = {{&ps, &held}, {&ps, &held}, {&ps, &held}, {&ps, &held},
                          {&ps, &held}, {&ps, &held}, {&ps, &held}, {&ps, &held}};
      for (Client& other : others) {
        other.SendElements(4000, /*more=*/false);
        CHECK(other.stream->answers == 1);
        CHECK(held.bytes() <= held.most());
      }
    }
    client.SendElements(1, /*more=*/false);
    CHECK(client.stream->answers == 3);
  }
  CHECK(held.bytes() == 0);
}

TEST_CASE("all streams together hold only so much") {
  TestCore ps;
  HeldBytes held(768 << 10);
  Client first(&ps, &held);
  Client second(&ps, &held);
  for (uint64_t i = 0; i < 100; ++i) first.SendElement(i, true);
  const size_t before = held.bytes();
  for (uint64_t i = 0; i < 5000 && !second.stream->closed.has_value(); ++i) {
    second.SendElement(i, true);
    CHECK(held.bytes() <= held.most());
  }
  REQUIRE(second.stream->closed.has_value());
  CHECK(absl::IsResourceExhausted(*second.stream->closed));
  CHECK(held.bytes() == before);
  CHECK_FALSE(first.stream->closed.has_value());
  first.SendElement(100, false);
  CHECK(first.stream->answers == 1);
  CHECK(held.bytes() == 0);
}

TEST_CASE("a large push comes while others hold little, and one that can never come is refused") {
  TestCore ps;
  HeldBytes held(768 << 10);
  held.SetMost(768 << 10, 2 << 20);
  Client large(&ps, &held);
  Client second(&ps, &held);
  uint64_t sent = 0;
  while (held.bytes() < held.most() + (64 << 10) && !large.stream->closed.has_value()) {
    large.SendElement(sent++, true);
  }
  REQUIRE_FALSE(large.stream->closed.has_value());
  // Another one has to wait: its client sends it again.
  for (uint64_t i = 0; i < 5000 && !second.stream->closed.has_value(); ++i) {
    second.SendElement(i, true);
  }
  REQUIRE(second.stream->closed.has_value());
  CHECK(absl::IsResourceExhausted(*second.stream->closed));
  CHECK(second.stream->answers == 0);
  while (!large.stream->closed.has_value() && sent < 50'000) {
    large.SendElement(sent++, true);
    CHECK(held.bytes() <= held.most_alone());
  }
  REQUIRE(large.stream->closed.has_value());
  CHECK(held.bytes() == 0);
  REQUIRE(large.stream->answers == 1);
  PushPullDecoder decoder;
  v1::PushPullResponseHeader answer;
  REQUIRE(decoder.Decode(std::move(large.stream->last), &answer).ok());
  CHECK(absl::StatusCode(answer.error().code()) == absl::StatusCode::kFailedPrecondition);
  CHECK(answer.error().message() ==
        "a request has 2 MB and more, and the memory of this server leaves 2 MB for it beside "
        "values and slots: give the server more memory, or use more servers and a partitioner");
}

TEST_CASE("a stream that ends silently gives back what it holds") {
  TestCore ps;
  HeldBytes held(1 << 30);
  {
    Client client(&ps, &held);
    for (uint64_t i = 0; i < 10; ++i) client.SendElement(i, /*more=*/true);
    CHECK(held.bytes() > 0);
  }
  CHECK(held.bytes() == 0);
}

TEST_CASE("a request whose rest does not come is dropped when others lack memory") {
  TestCore ps;
  const bool patient = GENERATE(true, false);
  HeldBytes held(768 << 10, patient ? Duration(std::chrono::hours(1)) : Duration::zero());
  Client idle(&ps, &held);
  Client keeps(&ps, &held);
  Client other(&ps, &held);
  for (uint64_t i = 0; i < 100; ++i) idle.SendElement(i, true);
  const size_t before = held.bytes();
  keeps.SendElements(300, /*more=*/false);
  CHECK(held.bytes() > before);
  for (uint64_t i = 0; i < 5000 && !other.stream->closed.has_value(); ++i) {
    other.SendElement(i, true);
  }
  REQUIRE(other.stream->closed.has_value());
  CHECK_FALSE(keeps.stream->closed.has_value());
  REQUIRE(idle.stream->closed.has_value() == !patient);
  if (patient) return;
  CHECK(absl::IsDeadlineExceeded(*idle.stream->closed));
  const size_t with_idle = held.bytes();
  idle.handler->OnClosed(absl::OkStatus());
  CHECK(held.bytes() < with_idle);
}

TEST_CASE("what streams keep leaves room for what comes") {
  TestCore ps;
  HeldBytes held(4 << 20);
  std::vector<std::unique_ptr<Client>> keep;
  for (int i = 0; i < 32; ++i) {
    keep.push_back(std::make_unique<Client>(&ps, &held));
    keep.back()->SendElements(1000, /*more=*/false);
    CHECK(keep.back()->stream->answers == 1);
    CHECK(held.bytes() <= held.most() / 4);
  }
  CHECK(held.bytes() > held.most() / 8);
  Client good(&ps, &held);
  for (uint64_t i = 0; i < 1000; ++i) good.SendElement(i, true);
  good.SendElement(1000, false);
  CHECK_FALSE(good.stream->closed.has_value());
  CHECK(good.stream->answers == 1);
}

// A client's end of a real stream, polled by the test's thread.
struct RealClient : StreamHandler {
  RealClient(const std::string& address, CompletionLoop* client_loop)
      : loop(client_loop), client(*StreamClient::Create(address, {})) {
    stream = client->Open("/cohort.v1.ParameterServer/PushPull", this, loop, {});
  }
  ~RealClient() override {
    stream->Abort();
    Until([this] { return closed.has_value(); });
  }
  void OnFrame(Frame) override {}
  void OnClosed(const absl::Status& status) override { closed = status; }
  bool Until(const std::function<bool()>& what) {
    return loop->RunUntil(what,
                          CompletionLoop::Clock::now() + testing::Scaled(std::chrono::seconds(30)));
  }
  // The first half of a push of 800 KB.
  void SendHalf() {
    v1::PushPullHeader header;
    header.set_sequence(1);
    header.set_more(true);
    v1::PushEntry* entry = header.mutable_push()->add_sections()->add_entries();
    entry->set_kind(v1::GRADIENT);
    entry->set_count(100'000);
    PushPullEncoder encoder;
    encoder.BeginPayload();
    encoder.Append(BufferRef::Allocate(400'000), 0, 400'000);
    stream->Send(encoder.Finish(header));
  }

  CompletionLoop* const loop;
  std::unique_ptr<StreamClient> client;
  std::shared_ptr<Stream> stream;
  std::optional<absl::Status> closed;
};

TEST_CASE("half a push is dropped in favor of another connection's, and the server continues") {
  TestCore ps;
  RealClock clock;
  PsService service({.max_held_bytes = 768 << 10, .patience = Duration::zero()});
  StreamServer::Options listen;
  listen.listen = {"127.0.0.1:0"};
  listen.threads = 2;
  const auto server = StreamServer::Start(listen, service.Methods(ps.core.get(), &clock));
  REQUIRE(server.ok());
  const std::string address = fmt::format("127.0.0.1:{}", (*server)->port());
  CompletionLoop loop;
  RealClient idle(address, &loop);
  RealClient other(address, &loop);
  RealClient third(address, &loop);
  const auto held = [&] { return service.held().bytes() > 400'000; };
  // Nothing wakes the test's thread: it polls the server's figure.
  const auto until_held = [&](RealClient* client) {
    const auto limit = CompletionLoop::Clock::now() + testing::Scaled(std::chrono::seconds(30));
    while (!held() && CompletionLoop::Clock::now() < limit) {
      client->loop->PollOnce(CompletionLoop::Clock::now() + std::chrono::milliseconds(1));
    }
    return held();
  };
  idle.SendHalf();
  REQUIRE(until_held(&idle));
  other.SendHalf();
  REQUIRE(other.Until([&] { return other.closed.has_value() && idle.closed.has_value(); }));
  CHECK(absl::IsResourceExhausted(*other.closed));
  CHECK(absl::IsDeadlineExceeded(*idle.closed));
  third.SendHalf();
  REQUIRE(until_held(&third));
  CHECK_FALSE(third.closed.has_value());
}

TEST_CASE("the streams of a service share what they may hold") {
  TestCore ps;
  RealClock clock;
  PsService service({.max_held_bytes = 768 << 10});
  const auto open =
      service.Methods(ps.core.get(), &clock).at("/cohort.v1.ParameterServer/PushPull");
  HeldBytes spare(0);
  Client first(&ps, &spare);
  Client second(&ps, &spare);
  for (Client* client : {&first, &second}) client->handler = open(client->stream, nullptr);
  for (uint64_t i = 0; i < 100; ++i) first.SendElement(i, true);
  const size_t before = service.held().bytes();
  CHECK(before > 0);
  for (uint64_t i = 0; i < 5000 && !second.stream->closed.has_value(); ++i) {
    second.SendElement(i, true);
  }
  REQUIRE(second.stream->closed.has_value());
  CHECK(absl::IsResourceExhausted(*second.stream->closed));
  CHECK_FALSE(first.stream->closed.has_value());
  CHECK(service.held().bytes() == before);
}

}  // namespace
}  // namespace cohort::ps_test
