#include <unistd.h>

#include <algorithm>
#include <random>

#include "common/base/log.h"
#include "common/base/status_proto.h"
#include "common/checkpoint/checkpoint_directory.h"
#include "common/cluster/protocol_version.h"
#include "common/cluster/role_flags.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/stream_client.h"
#include "common/tablet/tablet_test_util.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/time_test_util.h"
#include "proto/shared_payload.pb.h"
#include "ps_server/parameter_server.h"
#include "ps_server/ps_options.h"

namespace cohort::ps_test {
namespace {

using Floats = std::vector<float>;

CompletionLoop::Clock::time_point Deadline() {
  return CompletionLoop::Clock::now() + testing::Scaled(std::chrono::seconds(30));
}

// One stream of a raw client, polled by the test's thread.
class TestStream : public StreamHandler {
 public:
  // `incarnation`: what it says about the server that it means; "": nothing.
  TestStream(const std::string& address, const std::string& method, CompletionLoop* loop,
             const std::string& incarnation = "", const std::string& protocol = "")
      : loop_(loop), client_(*StreamClient::Create(address, {})) {
    StreamClient::OpenOptions options;
    if (!incarnation.empty()) options.metadata[kPsIncarnationKey] = incarnation;
    if (!protocol.empty()) options.metadata[kProtocolVersionKey] = protocol;
    stream = client_->Open("/cohort.v1.ParameterServer/" + method, this, loop, options);
  }
  ~TestStream() override {
    stream->Abort();
    loop_->RunUntil([this] { return closed; }, Deadline());
  }
  void OnFrame(Frame frame) override { frames.push_back(std::move(frame)); }
  void OnClosed(const absl::Status& s) override {
    closed = true;
    status = s;
  }
  bool Wait(size_t count) {
    loop_->RunUntil([&] { return closed || frames.size() >= count; }, Deadline());
    return frames.size() >= count;
  }
  bool WaitClosed() {
    return loop_->RunUntil([this] { return closed; }, Deadline());
  }

  std::shared_ptr<Stream> stream;
  std::vector<Frame> frames;
  bool closed = false;
  absl::Status status;

 private:
  CompletionLoop* const loop_;
  std::unique_ptr<StreamClient> client_;
};

// A chief, and a server that serves `layout` to it.
class TestServer {
 public:
  explicit TestServer(const v1::Layout& layout, int threads = 2) {
    ParameterServer::Options options;
    unix_path_ = fmt::format("/tmp/cohort-ps-test-{}.sock", getpid());
    options.listen = {"127.0.0.1:0", "unix:" + unix_path_};
    options.threads = threads;
    options.incarnation = 55;
    options.log = log.get();
    options.on_done = [this] { loop.Wake(); };
    auto started = ParameterServer::Start(std::move(options));
    INFO(started.status());
    REQUIRE(started.ok());
    server = *std::move(started);
    chief = std::make_unique<TestStream>(address(), "Control", &loop);
    v1::ChiefToPs adopt;
    adopt.mutable_adopt()->set_job("job");
    adopt.mutable_adopt()->set_checkpoint_dir(checkpoints.path());
    adopt.mutable_adopt()->set_directory_token(*CreateDirectoryToken(checkpoints.path(), 1));
    SetProtocolVersion(adopt.mutable_adopt());
    REQUIRE(Ask(adopt).has_hello());
    v1::ChiefToPs assign;
    *assign.mutable_assign()->mutable_layout() = layout;
    assign.mutable_assign()->set_timeline(1);
    assign.mutable_assign()->set_term(1);
    REQUIRE(Ask(assign).has_assigned());
  }
  ~TestServer() { ::unlink(unix_path_.c_str()); }

  std::string address() const { return fmt::format("127.0.0.1:{}", server->port()); }
  std::string unix_address() const { return "unix:" + unix_path_; }

  v1::PsToChief Ask(v1::ChiefToPs message) {
    message.set_generation(1);
    message.set_request(++request_);
    chief->frames.clear();
    chief->stream->Send(SerializeToFrame(message));
    v1::PsToChief answer;
    if (!chief->Wait(1)) return answer;
    REQUIRE(ParseFromFrame(chief->frames[0], &answer).ok());
    REQUIRE(answer.request() == request_);
    return answer;
  }

  testing::TestDirectory checkpoints;
  std::unique_ptr<Logger> log = Logger::Discard();
  CompletionLoop loop;
  std::unique_ptr<ParameterServer> server;
  std::unique_ptr<TestStream> chief;

 private:
  std::string unix_path_;
  uint64_t request_ = 0;
};

v1::PushPullHeader Header(uint64_t sequence, std::optional<uint64_t> closure = std::nullopt) {
  v1::PushPullHeader header;
  header.set_sequence(sequence);
  header.set_generation(1);
  if (closure.has_value()) {
    header.mutable_push()->mutable_id()->set_closure(*closure);
    header.mutable_push()->set_timeline(1);
    header.mutable_push()->set_weight(1);
    header.mutable_push()->add_sections()->set_term(1);
  }
  return header;
}

void AddDense(v1::PushPullHeader* header, uint64_t begin, const Floats& values,
              PushPullEncoder* encoder) {
  v1::PushEntry* entry = header->mutable_push()->mutable_sections(0)->add_entries();
  entry->set_kind(v1::GRADIENT);
  entry->set_begin(begin);
  entry->set_count(values.size());
  encoder->BeginPayload();
  BufferRef bytes = BufferRef::Allocate(values.size() * sizeof(float));
  std::memcpy(bytes->data(), values.data(), values.size() * sizeof(float));
  encoder->Append(std::move(bytes), 0, values.size() * sizeof(float));
}

void AddPull(v1::PushPullHeader* header) {
  v1::PullSection* section = header->mutable_pull()->add_sections();
  section->set_term(1);
  section->add_entries();
}

struct Answer {
  v1::PushPullResponseHeader header;  // the last message's
  std::vector<int> pushes;
  Floats values;  // the dense pull of shard 0
  size_t messages = 0;
};

// Reads messages until the last of the answer.
Answer Read(TestStream* client) {
  Answer answer;
  PushPullDecoder decoder;
  do {
    REQUIRE(client->Wait(answer.messages + 1));
    REQUIRE(decoder.Decode(std::move(client->frames[answer.messages++]), &answer.header).ok());
    for (const auto& push : answer.header.pushes()) answer.pushes.push_back(push.status());
    size_t field = 0;
    for (const auto& pull : answer.header.pulls()) {
      for (const auto& entry : pull.entries()) {
        answer.values.resize(std::max(answer.values.size(), entry.begin() + entry.count()));
        const PayloadView view = decoder.payload(field++);
        REQUIRE(view.size() == entry.count() * sizeof(float));
        view.CopyTo(answer.values.data() + entry.begin());
      }
    }
    REQUIRE(field == decoder.payload_count());
  } while (answer.header.more());
  client->frames.clear();
  return answer;
}

TEST_CASE("push and pull over TCP and unix sockets") {
  TestServer ps(Layout({Variable("w", {3}, 5)}, Sgd(1)));
  uint64_t closure = 0;
  for (const std::string& address : {ps.address(), ps.unix_address()}) {
    CAPTURE(address);
    TestStream client(address, "PushPull", &ps.loop);
    PushPullEncoder encoder;
    for (int i = 0; i < 3; ++i) {
      auto header = Header(closure + 1, closure);
      AddDense(&header, 0, {1, 0, -1}, &encoder);
      AddPull(&header);
      client.stream->Send(encoder.Finish(header));
      const Answer answer = Read(&client);
      ++closure;
      CHECK(answer.header.sequence() == closure);
      CHECK(answer.header.generation() == 1);
      CHECK(answer.pushes == std::vector<int>{v1::APPLIED});
      CHECK(answer.values == Floats{5.0f - closure, 5, 5.0f + closure});
    }
  }
  CHECK_THAT(ps.server->metrics().Text(),
             Catch::Contains("cohort_ps_pushes_total{verdict=\"applied\"} 6"));
}

TEST_CASE(
    "a client of another major version of the protocol is refused, and other minor ones mix") {
  TestServer ps(Layout({Variable("w", {3}, 5)}, Sgd(1)));
  const auto push = [&](uint64_t closure, const std::string& protocol) {
    TestStream client(ps.address(), "PushPull", &ps.loop, "", protocol);
    PushPullEncoder encoder;
    auto header = Header(1, closure);
    AddDense(&header, 0, {1, 1, 1}, &encoder);
    client.stream->Send(encoder.Finish(header));
    if (!client.Wait(1)) return client.status;
    CHECK(Read(&client).pushes == std::vector<int>{v1::APPLIED});
    return absl::OkStatus();
  };
  const absl::Status refused = push(100, "99.3");
  CHECK(absl::IsFailedPrecondition(refused));
  CHECK_THAT(refused.ToString(), Catch::Contains("the client speaks protocol 99.3, this parameter "
                                                 "server speaks 2."));
  CHECK_THAT(push(100, "new").ToString(), Catch::Contains("is \"new\", which is not a version"));
  CHECK_THAT(ps.server->metrics().Text(), Catch::Contains("cohort_ps_refused_streams_total 2\n"));
  CHECK(push(100, fmt::format("{}.99", kProtocolVersion.major)).ok());
  CHECK(push(101, "").ok());
}

TEST_CASE("a push for another server, or for another incarnation of this one, changes nothing") {
  TestServer ps(Layout({Variable("w", {3}, 5)}, Sgd(1)));
  int applied = 0;
  const auto push = [&](uint64_t closure, const std::string& incarnation) {
    TestStream client(ps.address(), "PushPull", &ps.loop, incarnation);
    PushPullEncoder encoder;
    auto header = Header(1, closure);
    AddDense(&header, 0, {1, 1, 1}, &encoder);
    AddPull(&header);
    client.stream->Send(encoder.Finish(header));
    if (!client.Wait(1)) return client.status;
    const Answer answer = Read(&client);
    CHECK(answer.pushes == std::vector<int>{v1::APPLIED});
    CHECK(answer.values == Floats(3, 5.0f - static_cast<float>(++applied)));
    return absl::OkStatus();
  };
  for (const char* other : {"0000000000000038", "37", "x"}) {
    const absl::Status refused = push(100, other);
    CHECK(absl::IsUnavailable(refused));
    CHECK_THAT(refused.ToString(), Catch::Contains("another incarnation of this one"));
  }
  CHECK_THAT(ps.server->metrics().Text(), Catch::Contains("cohort_ps_refused_streams_total 3\n"));
  CHECK(push(100, "0000000000000037").ok());  // 55: itself
  CHECK(push(101, "").ok());
}

TEST_CASE("large pushes and pulls travel in chunks; half a push is nothing") {
  constexpr size_t kElements = 1'500'000;
  TestServer ps(Layout({Variable("w", {kElements}, 1)}, Sgd(1)));
  PushPullEncoder encoder;
  const Floats half(kElements / 2, 0.5f);
  auto first = Header(1, 0);
  first.set_more(true);
  AddDense(&first, 0, half, &encoder);
  const Frame first_frame = encoder.Finish(first);
  {
    TestStream lost(ps.address(), "PushPull", &ps.loop);
    lost.stream->Send(first_frame.Clone());
    // An answer to another request would mean that the first half was taken for a whole.
    CHECK(ps.Ask([] {
              v1::ChiefToPs ping;
              ping.mutable_ping();
              return ping;
            }())
              .has_pong());
  }
  TestStream client(ps.address(), "PushPull", &ps.loop);
  auto pull = Header(9);
  AddPull(&pull);
  client.stream->Send(encoder.Finish(pull));
  Answer answer = Read(&client);
  CHECK(answer.messages == 3);
  CHECK(answer.values == Floats(kElements, 1));

  client.stream->Send(first_frame.Clone());
  auto second = Header(1, 0);
  AddDense(&second, kElements / 2, half, &encoder);
  AddPull(&second);
  client.stream->Send(encoder.Finish(second));
  answer = Read(&client);
  CHECK(answer.pushes == std::vector<int>{v1::APPLIED});
  CHECK(answer.values == Floats(kElements, 0.5f));
}

TEST_CASE("a request that makes no sense gets an error; half a one ends its stream") {
  TestServer ps(Layout({Variable("w", {3}, 5)}, Sgd(1)));
  PushPullEncoder encoder;
  TestStream client(ps.address(), "PushPull", &ps.loop);
  auto missing = Header(3, 1);
  missing.mutable_push()->mutable_sections(0)->add_entries()->set_kind(v1::GRADIENT);
  client.stream->Send(encoder.Finish(missing));
  Answer answer = Read(&client);
  CHECK(answer.header.sequence() == 3);
  CHECK(StatusFromProto(answer.header.error()).code() == absl::StatusCode::kInvalidArgument);
  auto good = Header(4, 1);
  AddDense(&good, 0, {1, 1, 1}, &encoder);
  client.stream->Send(encoder.Finish(good));
  CHECK(Read(&client).pushes == std::vector<int>{v1::APPLIED});
  missing.set_more(true);
  client.stream->Send(encoder.Finish(missing));
  REQUIRE(client.WaitClosed());
  CHECK(client.status.code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("hostile bytes never end the server") {
  TestServer ps(Layout({Variable("w", {4}, 5), Variable("t", {4, 2})}, Sgd(1)));
  const unsigned seed = 20240607;
  CAPTURE(seed);
  std::mt19937 random(seed);
  PushPullEncoder encoder;
  auto header = Header(1, 1);
  AddDense(&header, 0, {1, 1, 1, 1}, &encoder);
  AddPull(&header);
  const Frame valid = encoder.Finish(header);
  std::vector<grpc::Slice> slices;
  REQUIRE(valid.bytes().Dump(&slices).ok());
  std::string bytes;
  for (const auto& s : slices) bytes.append(reinterpret_cast<const char*>(s.begin()), s.size());
  for (int round = 0; round < 300; ++round) {
    TestStream client(ps.address(), round % 3 == 0 ? "Control" : "PushPull", &ps.loop);
    for (int i = 0; i < 5; ++i) {
      std::string mutated = bytes;
      if (random() % 4 == 0) {
        for (char& c : mutated) c = static_cast<char>(random());
      }
      for (size_t n = random() % 4; n > 0; --n) {
        mutated[random() % mutated.size()] = static_cast<char>(random());
      }
      mutated.resize(random() % 3 == 0 ? random() % mutated.size() : mutated.size());
      const grpc::Slice slice(mutated);
      client.stream->Send(Frame(&slice, 1));
    }
    client.stream->Close(absl::OkStatus());
    REQUIRE(client.WaitClosed());
  }
  TestStream client(ps.address(), "PushPull", &ps.loop);
  auto pull = Header(9);
  AddPull(&pull);
  client.stream->Send(encoder.Finish(pull));
  CHECK(Read(&client).values.size() == 4);
}

TEST_CASE("a steady state allocates no buffers") {
  TestServer ps(Layout({Variable("w", {100'000}, 5)}, Sgd(1)), 1);
  TestStream client(ps.unix_address(), "PushPull", &ps.loop);
  PushPullEncoder encoder;
  const Floats gradient(100'000, 1);
  int64_t allocated = 0;
  for (uint64_t i = 0; i < 60; ++i) {
    if (i == 10) allocated = ps.server->core()->pool()->heap_allocations();
    auto header = Header(i, i);
    AddDense(&header, 0, gradient, &encoder);
    AddPull(&header);
    client.stream->Send(encoder.Finish(header));
    REQUIRE(Read(&client).values[0] == 4.0f - static_cast<float>(i));
  }
  CHECK(ps.server->core()->pool()->heap_allocations() <= allocated + 1);
}

TEST_CASE("the end of the job closes every stream cleanly") {
  TestServer ps(Layout({Variable("w", {3}, 5)}, Sgd(1)));
  TestStream client(ps.address(), "PushPull", &ps.loop);
  CHECK(ps.server->Tick().ok());
  PushPullEncoder encoder;
  auto pull = Header(1);
  AddPull(&pull);
  client.stream->Send(encoder.Finish(pull));
  CHECK(Read(&client).values == Floats{5, 5, 5});
  v1::ChiefToPs shutdown;
  shutdown.set_generation(1);
  shutdown.mutable_shutdown()->set_job_finished(true);
  shutdown.mutable_shutdown()->set_reason("done");
  ps.chief->stream->Send(SerializeToFrame(shutdown));
  REQUIRE(ps.loop.RunUntil([&] { return ps.server->end().has_value(); }, Deadline()));
  CHECK(ps.server->end()->job_finished);
  absl::Status ended;
  std::thread ending(
      [&] { ended = ps.server->Shutdown(absl::OkStatus(), std::chrono::seconds(1)); });
  CHECK(client.WaitClosed());
  CHECK(client.status.ok());
  ending.join();
  CHECK(ended.ok());
}

TEST_CASE("a taken port is an error; a missing chief is named and has a deadline") {
  TestServer ps(Layout({Variable("w", {3}, 5)}, Sgd(1)));
  auto log = Logger::Discard();
  ParameterServer::Options options;
  options.listen = {ps.address()};
  options.log = log.get();
  options.address = "host:1234";
  CHECK(ParameterServer::Start(options).status().code() == absl::StatusCode::kAlreadyExists);
  options.listen = {"127.0.0.1:0"};
  options.chief_wait = std::chrono::nanoseconds(1);
  auto alone = ParameterServer::Start(options);
  REQUIRE(alone.ok());
  CHECK_THAT(std::string((*alone)->Tick().message()), Catch::Contains("no chief dialed host:1234"));
}

v1::SharedPayload Offer(const SharedSegment& segment) {
  v1::SharedPayload word;
  word.set_id(segment.id());
  word.set_pid(static_cast<uint32_t>(getpid()));
  word.set_fd(static_cast<uint32_t>(segment.fd()));
  word.set_bytes(segment.size());
  word.set_answer_begin(segment.size() / 2);
  word.set_answer_bytes(segment.size() / 2);
  return word;
}

// The answer's word, and its header.
v1::SharedPayload ReadWord(TestStream* client, v1::PushPullResponseHeader* header) {
  PushPullDecoder decoder;
  REQUIRE(client->Wait(1));
  REQUIRE(decoder.Decode(std::move(client->frames[0]), header).ok());
  client->frames.clear();
  v1::SharedPayload word;
  const auto bytes = decoder.shared();
  REQUIRE(word.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return word;
}

TEST_CASE("payloads lie in memory that a client of this host shares") {
  constexpr size_t kElements = 8192;
  constexpr size_t kBytes = kElements * sizeof(float);
  TestServer ps(Layout({Variable("w", {kElements}, 5)}, Sgd(1)));
  const auto segment = *SharedSegment::Create(8 * kBytes);
  PushPullEncoder encoder;
  v1::PushPullResponseHeader answer;
  TestStream client(ps.unix_address(), "PushPull", &ps.loop);
  auto header = Header(1, 0);
  v1::PushEntry* entry = header.mutable_push()->mutable_sections(0)->add_entries();
  entry->set_kind(v1::GRADIENT);
  entry->set_count(kElements);
  AddPull(&header);
  auto* const values = reinterpret_cast<float*>(segment->At(64, kBytes).data());
  std::fill_n(values, kElements, 2.0f);
  v1::SharedPayload word = Offer(*segment);
  word.add_begin(64);
  word.add_length(kBytes);
  client.stream->Send(encoder.Finish(header, &word));
  const v1::SharedPayload given = ReadWord(&client, &answer);
  CHECK(given.id() == segment->id());
  REQUIRE(answer.pushes_size() == 1);
  CHECK(answer.pushes(0).status() == v1::APPLIED);
  REQUIRE(given.begin_size() == 1);
  REQUIRE(given.length(0) == kBytes);
  const auto bytes = segment->At(given.begin(0), given.length(0));
  CHECK(reinterpret_cast<const float*>(bytes.data())[kElements - 1] == 3.0f);
  // Over TCP the other end may be anywhere: nothing is said about the offer.
  TestStream remote(ps.address(), "PushPull", &ps.loop);
  auto pull = Header(2);
  AddPull(&pull);
  const v1::SharedPayload offer = Offer(*segment);
  remote.stream->Send(encoder.Finish(pull, &offer));
  CHECK(Read(&remote).values == Floats(kElements, 3.0f));
}

TEST_CASE("a word about shared memory that makes no sense ends its request, not the server") {
  TestServer ps(Layout({Variable("w", {8}, 5)}, Sgd(1)));
  const auto segment = *SharedSegment::Create(4096);
  const auto push = [&](uint64_t begin, uint64_t length, const auto& change) {
    TestStream client(ps.unix_address(), "PushPull", &ps.loop);
    PushPullEncoder encoder;
    auto header = Header(1, 0);
    v1::PushEntry* entry = header.mutable_push()->mutable_sections(0)->add_entries();
    entry->set_kind(v1::GRADIENT);
    entry->set_count(8);
    v1::SharedPayload word = Offer(*segment);
    word.add_begin(begin);
    word.add_length(length);
    change(&word);
    client.stream->Send(encoder.Finish(header, &word));
    v1::PushPullResponseHeader answer;
    PushPullDecoder decoder;
    REQUIRE(client.Wait(1));
    REQUIRE(decoder.Decode(std::move(client.frames[0]), &answer).ok());
    return answer.has_error() ? answer.error().message()
                              : "push status " + std::to_string(answer.pushes(0).status());
  };
  const auto as_it_is = [](v1::SharedPayload*) {};
  CHECK_THAT(push(4096, 32, as_it_is), Catch::Contains("payload 0 is not in the shared segment"));
  CHECK_THAT(push(0, 32, as_it_is), Catch::Contains("payload 0"));
  CHECK_THAT(push(65, 32, as_it_is), Catch::Contains("payload 0"));
  CHECK_THAT(push(64, uint64_t{1} << 63, as_it_is),
             Catch::Contains("payload 0 is not in the shared segment"));
  CHECK_THAT(push(64, 32, [](v1::SharedPayload* word) { word->add_begin(64); }),
             Catch::Contains("2 offsets, but 1 lengths"));
  CHECK_THAT(push(64, 32, [](v1::SharedPayload* word) { word->set_id(1); }),
             Catch::Contains("cannot be opened"));
  CHECK_THAT(push(64, 32, [](v1::SharedPayload* word) { word->set_fd(0); }),
             Catch::Contains("cannot be opened"));
  CHECK(push(64, 28, as_it_is) == "push status " + std::to_string(v1::INVALID));
  CHECK(push(64, 32, as_it_is) == "push status " + std::to_string(v1::APPLIED));
}

TEST_CASE("what a server's flags and TF_CONFIG say goes into its options") {
  RoleContext context;
  context.bind = Address{"127.0.0.1", 1};
  context.log = Logger::Discard();
  PsFlags flags;
  flags.role.unix_socket_dir = "none";
  const auto options = MakeServerOptions(flags, context, {});
  REQUIRE(options.ok());
  CHECK(options->listen == std::vector<std::string>{"127.0.0.1:1"});
}

}  // namespace
}  // namespace cohort::ps_test
