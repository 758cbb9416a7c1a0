// Ends streams in every order: both ends close, abort or disappear at random moments, from several
// threads. Each handler still gets its OnClosed exactly once.
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "common/base/status.h"
#include "common/rpc/stream/rpc_test_util.h"

namespace cohort {
namespace {

std::atomic<int> live_handlers{0};
std::atomic<int> closes{0};

// Answers, and sometimes ends its stream in a random way.
class Erratic : public StreamHandler {
 public:
  Erratic(std::shared_ptr<Stream> stream, uint32_t seed)
      : stream_(std::move(stream)), random_(seed) {
    ++live_handlers;
    if (random_() % 16 == 0) stream_->Abort();
    if (random_() % 16 == 0) stream_->Close(Aborted("from the start"));
  }
  ~Erratic() override { --live_handlers; }
  void OnFrame(Frame frame) override {
    switch (random_() % 12) {
      case 0:
        return stream_->Close(absl::OkStatus());
      case 1:
        return stream_->Close(Aborted("enough"));
      case 2:
        return stream_->Abort();
      default:
        for (uint32_t i = random_() % 3; i > 0; --i) stream_->Send(frame.Clone());
    }
  }
  void OnClosed(const absl::Status&) override {
    ++closes;
    stream_->Send(FrameOf("too late"));
  }

 private:
  const std::shared_ptr<Stream> stream_;
  std::mt19937 random_;
};

void DriveOne(Stream* stream, uint32_t seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < 6; ++i) {
    if (random() % 4 == 0) std::this_thread::yield();
    stream->Send(FrameOf(std::string(random() % 70'000, 'x')));
    if (random() % 8 == 0) stream->Abort();
    if (random() % 8 == 0) stream->Close(absl::OkStatus());
    if (random() % 8 == 0) stream->Close(Cancelled("a client that changed its mind"));
  }
  if (random() % 2 == 0) stream->Close(absl::OkStatus());
}

TEST_CASE("every order of ends calls OnClosed exactly once") {
  const uint32_t seed = 20240607;
  INFO("seed " << seed);
  std::atomic<uint32_t> made{0};
  closes = 0;
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.threads = 2;
  auto server = StreamServer::Start(
      options, {{kEchoMethod, [&](std::shared_ptr<Stream> stream, CompletionLoop*) {
                   return std::make_unique<Erratic>(std::move(stream), seed + ++made);
                 }}});
  REQUIRE(server.ok());
  const std::string address = (*server)->addresses().front();
  std::mt19937 random(seed);
  for (int round = 0; round < 30; ++round) {
    auto loop = std::make_unique<CompletionLoop>();
    const bool own_thread = random() % 2 == 0;
    if (own_thread) loop->Start("client");
    auto client = StreamClient::Create(address, {});
    REQUIRE(client.ok());
    std::vector<std::unique_ptr<Recorder>> handlers;
    std::vector<std::shared_ptr<Stream>> streams;
    for (int i = 0; i < 6; ++i) {
      handlers.push_back(std::make_unique<Recorder>());
      streams.push_back((*client)->Open(kEchoMethod, handlers.back().get(), loop.get()));
    }
    const uint32_t first = random();
    std::thread one([&] {
      for (int i = 0; i < 6; ++i) DriveOne(streams[i].get(), first + i);
    });
    std::thread two([&] {
      for (int i = 5; i >= 0; --i) DriveOne(streams[i].get(), first + 100 + i);
    });
    if (random() % 2 == 0) client->reset();  // streams live on
    if (!own_thread) {
      loop->RunUntil([&] { return handlers[0]->closed() > 0; },
                     CompletionLoop::Clock::now() + std::chrono::milliseconds(random() % 50));
    }
    const bool last_round = round == 29;
    if (last_round) (*server)->Shutdown(Unavailable("over"), std::chrono::milliseconds(100));
    one.join();
    two.join();
    if (random() % 2 == 0) streams.clear();
    loop->Shutdown();
    for (const auto& handler : handlers) CHECK(handler->closed() == 1);
    loop.reset();
  }
  server->reset();
  CHECK(live_handlers == 0);
  CHECK(static_cast<uint32_t>(closes) == made);
}

}  // namespace
}  // namespace cohort
