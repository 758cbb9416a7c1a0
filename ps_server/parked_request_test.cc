// Requests that are answered later, from another thread.
#include <unistd.h>

#include <deque>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/rpc/stream/stream_client.h"
#include "common/rpc/stream/stream_server.h"
#include "common/testing/time_test_util.h"
#include "ps_server/core_test_util.h"
#include "ps_server/data_stream.h"
#include "ps_server/ps_service.h"

namespace cohort::ps_test::parked {
namespace {

constexpr size_t kElements = 8192;

CompletionLoop::Clock::time_point Deadline() {
  return CompletionLoop::Clock::now() + testing::Scaled(std::chrono::seconds(30));
}

// A server of one thread that parks requests with an odd sequence and answers the others at once.
class ParkingServer {
 public:
  explicit ParkingServer(size_t max_held_bytes = size_t{1} << 30)
      : path_(fmt::format("/tmp/cohort-parked-{}.sock", getpid())), held_(max_held_bytes) {
    ps_.Adopt(1, 1);
    ps_.Assign(1, Layout({Variable("w", {kElements}, 5)}, Sgd(1)));
    ps_.RunBackground();
    RequestContext context =
        MakeRequestContext(ps_.core.get(), &counters_, &held_, &pulls_, /*pins=*/nullptr);
    context.execute = [this, at_once = context.execute](std::unique_ptr<PushPullRequest> request) {
      if (request->view().sequence % 2 == 0) return at_once(std::move(request));
      if (const absl::Status status = request->Park(); !status.ok()) {
        request->AnswerError(status);
        return request;
      }
      MutexLock lock(&mu_);
      parked_.push_back(std::move(request));
      return std::unique_ptr<PushPullRequest>();
    };
    const auto shared = std::make_shared<const RequestContext>(std::move(context));
    StreamServer::Options listen;
    listen.listen = {"unix:" + path_};
    auto server = StreamServer::Start(
        listen, {{kPushPullMethod, [shared](std::shared_ptr<Stream> stream, CompletionLoop*) {
                    return std::make_unique<DataStream>(shared, std::move(stream));
                  }}});
    REQUIRE(server.ok());
    server_ = *std::move(server);
  }
  ~ParkingServer() {
    server_ = nullptr;
    unlink(path_.c_str());
  }

  std::string address() const { return "unix:" + path_; }
  const HeldBytes& held() const { return held_; }

  // The oldest parked request; null: there is none.
  std::unique_ptr<PushPullRequest> TakeParked() {
    MutexLock lock(&mu_);
    if (parked_.empty()) return nullptr;
    auto request = std::move(parked_.front());
    parked_.pop_front();
    return request;
  }
  // Executes and answers a parked request. On any thread.
  void Answer(std::unique_ptr<PushPullRequest> request) { request->Execute(); }
  uint64_t version() const { return ps_.core->data_path()->tablets()->tablets[0]->version(); }

 private:
  const std::string path_;
  TestCore ps_;
  CodecCounters counters_;
  HeldBytes held_;
  ParkedRequests pulls_{ps_.core->admission()};
  Mutex mu_;
  std::deque<std::unique_ptr<PushPullRequest>> parked_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<StreamServer> server_;
};

// A client's stream, polled by the test's thread.
class Client : public StreamHandler {
 public:
  explicit Client(const std::string& address) : client_(*StreamClient::Create(address, {})) {
    stream_ = client_->Open(kPushPullMethod, this, &loop_, {});
  }
  ~Client() override { Abort(); }

  // Opens a segment for each request that shares memory, as SharedPayloadClient does while one is
  // unanswered.
  std::unique_ptr<SharedSegment> Send(uint64_t sequence, std::optional<uint64_t> push,
                                      bool share = false) {
    v1::PushPullHeader header;
    header.set_sequence(sequence);
    header.set_generation(1);
    std::unique_ptr<SharedSegment> segment;
    v1::SharedPayload word;
    if (share) {
      segment = *SharedSegment::Create(4 * kElements * sizeof(float));
      word.set_id(segment->id());
      word.set_pid(static_cast<uint32_t>(getpid()));
      word.set_fd(static_cast<uint32_t>(segment->fd()));
      word.set_bytes(segment->size());
      word.set_answer_begin(segment->size() / 2);
      word.set_answer_bytes(segment->size() / 2);
    }
    if (push.has_value()) {
      header.mutable_push()->mutable_id()->set_closure(*push);
      header.mutable_push()->set_timeline(1);
      header.mutable_push()->set_weight(1);
      v1::PushSection* section = header.mutable_push()->add_sections();
      section->set_term(1);
      section->add_entries()->set_kind(v1::GRADIENT);
      section->mutable_entries(0)->set_count(kElements);
      const std::vector<float> ones(kElements, 1);
      const size_t bytes = kElements * sizeof(float);
      if (share) {
        std::memcpy(segment->At(64, bytes).data(), ones.data(), bytes);
        word.add_begin(64);
        word.add_length(bytes);
      } else {
        BufferRef values = BufferRef::Allocate(bytes);
        std::memcpy(values->data(), ones.data(), bytes);
        encoder_.BeginPayload();
        encoder_.Append(values, 0, bytes);
      }
    }
    v1::PullSection* section = header.mutable_pull()->add_sections();
    section->set_term(1);
    section->add_entries();
    stream_->Send(encoder_.Finish(header, share ? &word : nullptr));
    return segment;
  }

  struct Answer {
    v1::PushPullResponseHeader header;
    float last = 0;  // the last value pulled
  };
  Answer Read(const SharedSegment* segment = nullptr) {
    REQUIRE(loop_.RunUntil([this] { return !frames_.empty() || closed_; }, Deadline()));
    REQUIRE_FALSE(frames_.empty());
    PushPullDecoder decoder;
    Answer answer;
    REQUIRE(decoder.Decode(std::move(frames_.front()), &answer.header).ok());
    frames_.pop_front();
    v1::SharedPayload word;
    if (decoder.has_shared()) {
      REQUIRE(
          word.ParseFromArray(decoder.shared().data(), static_cast<int>(decoder.shared().size())));
      REQUIRE(segment != nullptr);
      CHECK(word.id() == segment->id());
    }
    PayloadFields fields;
    REQUIRE(fields.Find(decoder, &word, segment).ok());
    if (fields.size() == 0) return answer;
    CHECK(fields.in_shared_memory() == (segment != nullptr));
    std::vector<uint8_t> bytes;
    for (const PayloadFields::Pieces& field : fields.all()) {
      for (const auto& piece : field) bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    REQUIRE(bytes.size() == kElements * sizeof(float));
    std::memcpy(&answer.last, bytes.data() + bytes.size() - sizeof(float), sizeof(float));
    return answer;
  }
  // Polls until the server has parked a request.
  std::unique_ptr<PushPullRequest> AwaitParked(ParkingServer* server) {
    std::unique_ptr<PushPullRequest> request;
    const auto deadline = Deadline();
    while (request == nullptr && CompletionLoop::Clock::now() < deadline) {
      loop_.PollOnce(CompletionLoop::Clock::now() + std::chrono::milliseconds(1));
      request = server->TakeParked();
    }
    REQUIRE(request != nullptr);
    return request;
  }
  void Abort() {
    stream_->Abort();
    CHECK(loop_.RunUntil([this] { return closed_; }, Deadline()));
  }

  void OnFrame(Frame frame) override { frames_.push_back(std::move(frame)); }
  void OnClosed(const absl::Status&) override { closed_ = true; }

 private:
  CompletionLoop loop_;
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;
  PushPullEncoder encoder_;
  std::deque<Frame> frames_;
  bool closed_ = false;
};

// Until a condition of the server's own threads holds.
bool Eventually(const std::function<bool()>& what) {
  const auto deadline = Deadline();
  while (!what() && CompletionLoop::Clock::now() < deadline) std::this_thread::yield();
  return what();
}

TEST_CASE("a request is answered later by another thread, while its stream handles others") {
  ParkingServer server;
  const bool share = GENERATE(false, true);
  {
    Client client(server.address());
    const auto first = client.Send(1, /*push=*/0, share);
    std::unique_ptr<PushPullRequest> parked = client.AwaitParked(&server);
    const size_t held = server.held().bytes();
    CHECK(held > (share ? size_t{1} : kElements * sizeof(float)));
    for (uint64_t sequence = 2; sequence < 10; sequence += 2) {
      const auto segment = client.Send(sequence, sequence, share);
      const auto answer = client.Read(segment.get());
      CHECK(answer.header.sequence() == sequence);
      REQUIRE(answer.header.pushes_size() == 1);
      CHECK(answer.header.pushes(0).status() == v1::APPLIED);
      CHECK(answer.last == 5 - static_cast<float>(sequence) / 2);
    }
    CHECK(server.held().bytes() >= held);
    std::thread([&] { server.Answer(std::move(parked)); }).join();
    const auto answer = client.Read(first.get());
    CHECK(answer.header.sequence() == 1);
    CHECK(answer.header.pushes(0).status() == v1::APPLIED);
    CHECK(answer.last == 0);
    CHECK(server.held().bytes() == 0);
    client.Send(12, std::nullopt);
    CHECK(client.Read().last == 0);
  }
  CHECK(Eventually([&] { return server.held().bytes() == 0; }));
}

TEST_CASE("several requests of one stream are parked and answered in another order") {
  ParkingServer server;
  Client client(server.address());
  std::vector<std::unique_ptr<PushPullRequest>> parked;
  for (uint64_t sequence = 1; sequence < 9; sequence += 2) {
    client.Send(sequence, std::nullopt);
    parked.push_back(client.AwaitParked(&server));
  }
  std::thread([&] {
    while (!parked.empty()) {
      server.Answer(std::move(parked.back()));
      parked.pop_back();
    }
  }).join();
  for (const uint64_t sequence : {7, 5, 3, 1}) {
    CHECK(client.Read().header.sequence() == sequence);
  }
  CHECK(server.held().bytes() == 0);
}

TEST_CASE("the answer of a parked request whose stream has ended is dropped") {
  ParkingServer server;
  std::unique_ptr<PushPullRequest> parked;
  {
    Client client(server.address());
    const auto segment = client.Send(1, /*push=*/0, GENERATE(false, true));
    parked = client.AwaitParked(&server);
    CHECK_FALSE(parked->stream_ended());
  }
  REQUIRE(Eventually([&] { return parked->stream_ended(); }));
  CHECK(server.held().bytes() > 0);
  std::thread([&] { server.Answer(std::move(parked)); }).join();
  CHECK(server.version() == 1);  // its push counts all the same
  CHECK(server.held().bytes() == 0);
  Client next(server.address());
  next.Send(2, std::nullopt);
  CHECK(next.Read().last == 4);
}

TEST_CASE("a request that would hold too much is not parked") {
  ParkingServer server(16 << 10);
  Client client(server.address());
  client.Send(1, /*push=*/0);
  const auto answer = client.Read();
  CHECK(answer.header.sequence() == 1);
  CHECK(absl::IsResourceExhausted(StatusFromProto(answer.header.error())));
  CHECK(server.held().bytes() == 0);
  client.Send(2, std::nullopt);
  CHECK(client.Read().last == 5);
}

}  // namespace
}  // namespace cohort::ps_test::parked
