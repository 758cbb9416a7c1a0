#include "common/rpc/stream/stream.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <future>
#include <thread>

#include "common/base/status.h"
#include "common/rpc/stream/frame_pieces.h"
#include "common/rpc/stream/rpc_test_util.h"

namespace cohort {
namespace {

struct Echo {
  explicit Echo(StreamServer::Options options = ListenOn({"127.0.0.1:0"}),
                bool joins_pieces = false) {
    transport = options.transport;
    auto started = StreamServer::Start(options, EchoMethods(&at_server, kEchoMethod, joins_pieces));
    REQUIRE(started.ok());
    server = *std::move(started);
    client = Dial(server->addresses().front(), transport);
  }
  static std::unique_ptr<StreamClient> Dial(const std::string& address,
                                            const TransportOptions& transport = {}) {
    StreamClient::Options options;
    options.transport = transport;
    auto created = StreamClient::Create(address, options);
    REQUIRE(created.ok());
    return *std::move(created);
  }
  bool Until(absl::FunctionRef<bool()> done) { return loop.RunUntil(done, TestDeadline()); }

  TransportOptions transport;  // for both ends
  Recorder at_server;
  std::unique_ptr<StreamServer> server;
  std::unique_ptr<StreamClient> client;
  Recorder handler;
  CompletionLoop loop;
};

TEST_CASE("one server echoes over TCP and over a unix socket") {
  const std::string path = TestSocketPath("echo");
  Echo echo(ListenOn({"127.0.0.1:0", "unix:" + path}));
  REQUIRE(echo.server->port() > 0);
  CHECK(echo.server->addresses()[1] == "unix:" + path);
  for (const std::string& address : echo.server->addresses()) {
    const auto client = Echo::Dial(address);
    Recorder handler;
    const auto stream = client->Open(kEchoMethod, &handler, &echo.loop);
    stream->Send(FrameOf("one"));  // before there is a connection
    REQUIRE(echo.Until([&] { return handler.frame_count() == 1; }));
    CHECK(handler.connected());
    stream->Send(FrameOf("two"));
    stream->Send(FrameOf(""));
    REQUIRE(echo.Until([&] { return handler.frame_count() == 3; }));
    CHECK(handler.frames() == std::vector<std::string>{"one", "two", ""});
    CHECK(stream->peer().address == address);
    CHECK(stream->queued_bytes() == 0);
    stream->Close(absl::OkStatus());
    REQUIRE(echo.Until([&] { return handler.closed() == 1; }));
    CHECK(handler.status().ok());
  }
}

// A client's handler that expects one frame for each that it sends.
class Asker : public Recorder {
 public:
  bool ExpectsMore() override { return false; }
};

// Segments with data that the TCP sockets of this process have sent.
uint64_t SegmentsSent() {
  uint64_t segments = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    if (size > offsetof(tcp_info, tcpi_data_segs_out)) segments += info.tcpi_data_segs_out;
  }
  return segments;
}

// Cuts all TCP connections of this process, as if a host had failed.
void CutConnections() {
  constexpr int kEstablished = 1;  // <netinet/tcp.h>, which <linux/tcp.h> excludes
  for (int fd = 0; fd < 1024; ++fd) {
    tcp_info info = {};
    socklen_t size = sizeof(info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    if (info.tcpi_state == kEstablished) shutdown(fd, SHUT_RDWR);
  }
}

// The mean number of segments that both ends send for one request and its answer.
double SegmentsPerExchange(const StreamServer& server) {
  const auto client = Echo::Dial(server.addresses().front());
  CompletionLoop loop;
  Asker asker;
  const auto stream = client->Open(kEchoMethod, &asker, &loop);
  constexpr size_t kRounds = 500;
  uint64_t before = 0;
  for (size_t i = 1; i <= 2 * kRounds; ++i) {
    if (i == kRounds + 1) before = SegmentsSent();  // now both ends have a mean
    stream->Send(FrameOf(std::string(100, 'x')));
    REQUIRE(loop.RunUntil([&] { return asker.frame_count() == i; }, TestDeadline()));
  }
  const uint64_t after = SegmentsSent();
  stream->Close(absl::OkStatus());
  REQUIRE(loop.RunUntil([&] { return asker.closed() == 1; }, TestDeadline()));
  CHECK(asker.status().ok());
  return (static_cast<double>(after) - static_cast<double>(before)) / kRounds;
}

// The pings that measure the connection add some segments.
TEST_CASE("a request and its answer take one segment each, without extra segments") {
  const auto server = StreamServer::Start(ListenOn({"127.0.0.1:0"}), EchoMethods());
  REQUIRE(server.ok());
  const double segments = SegmentsPerExchange(**server);
  CHECK(segments >= 2);
  CHECK(segments < 2.5);
}

TEST_CASE("a delayed read starts with the next frame or at the end") {
  StreamServer::Methods methods = EchoMethods();
  methods["/cohort.test.Echo/Twice"] = [](std::shared_ptr<Stream> stream, CompletionLoop*) {
    class Twice : public StreamHandler {
     public:
      explicit Twice(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
      void OnFrame(Frame frame) override {
        stream_->Send(frame.Clone());
        stream_->Send(std::move(frame));
      }
      void OnClosed(const absl::Status&) override {}

     private:
      const std::shared_ptr<Stream> stream_;
    };
    return std::make_unique<Twice>(std::move(stream));
  };
  auto server = StreamServer::Start(ListenOn({"127.0.0.1:0"}), std::move(methods));
  REQUIRE(server.ok());
  const auto client = Echo::Dial((*server)->addresses().front());
  CompletionLoop loop;
  const auto until = [&](absl::FunctionRef<bool()> done) {
    return loop.RunUntil(done, TestDeadline());
  };
  Asker asker;
  Recorder other;
  const auto stream = client->Open("/cohort.test.Echo/Twice", &asker, &loop);
  stream->Send(FrameOf("one"));
  REQUIRE(until([&] { return asker.frame_count() == 1; }));
  // The second "one" arrived before this answer, over the same connection.
  const auto echo = client->Open(kEchoMethod, &other, &loop);
  for (size_t i = 1; i <= 3; ++i) {
    echo->Send(FrameOf("echo"));
    REQUIRE(until([&] { return other.frame_count() == i; }));
  }
  CHECK(asker.frame_count() == 1);
  stream->Send(FrameOf("two"));
  REQUIRE(until([&] { return asker.frame_count() == 2; }));
  SECTION("closed") {
    stream->Close(absl::OkStatus());
    REQUIRE(until([&] { return asker.closed() == 1; }));
    CHECK(asker.status().ok());
    CHECK(asker.frames() == std::vector<std::string>{"one", "one", "two", "two"});
  }
  SECTION("aborted") {
    stream->Abort();
    REQUIRE(until([&] { return asker.closed() == 1; }));
    CHECK(absl::IsCancelled(asker.status()));
  }
  SECTION("the server ends") {
    (*server)->Shutdown(Unavailable("gone"), std::chrono::milliseconds(100));
    stream->Send(FrameOf("three"));
    REQUIRE(until([&] { return asker.closed() == 1; }));
    CHECK(absl::IsUnavailable(asker.status()));
  }
  loop.Shutdown();
}

TEST_CASE("a failed write while a read is delayed ends the stream") {
  std::promise<void> go_on;
  std::shared_future<void> gone = go_on.get_future().share();
  StreamServer::Methods methods = EchoMethods();
  methods["/cohort.test.Echo/Once"] = [gone](std::shared_ptr<Stream> stream, CompletionLoop*) {
    // Answers and stops reading.
    class Once : public StreamHandler {
     public:
      Once(std::shared_ptr<Stream> stream, std::shared_future<void> gone)
          : stream_(std::move(stream)), gone_(std::move(gone)) {}
      void OnFrame(Frame frame) override {
        stream_->Send(std::move(frame));
        gone_.wait();
      }
      void OnClosed(const absl::Status&) override {}

     private:
      const std::shared_ptr<Stream> stream_;
      const std::shared_future<void> gone_;
    };
    return std::make_unique<Once>(std::move(stream), gone);
  };
  auto server = StreamServer::Start(ListenOn({"127.0.0.1:0"}), std::move(methods));
  REQUIRE(server.ok());
  const auto client = Echo::Dial((*server)->addresses().front());
  CompletionLoop loop;
  Asker asker;
  const auto stream = client->Open("/cohort.test.Echo/Once", &asker, &loop);
  stream->Send(FrameOf("one"));
  stream->Send(FrameOf(std::string(size_t{64} << 20, 'x')));  // in flight when the answer arrives
  REQUIRE(loop.RunUntil([&] { return asker.frame_count() == 1; }, TestDeadline()));
  CutConnections();
  REQUIRE(loop.RunUntil([&] { return asker.closed() == 1; }, TestDeadline()));
  CHECK(absl::IsUnavailable(asker.status()));
  go_on.set_value();
  loop.Shutdown();
}

TEST_CASE("a big frame arrives whole") {
  Echo echo(ListenOn({"127.0.0.1:0"}));
  std::string big(size_t{64} << 20, 'x');
  for (size_t i = 0; i < big.size(); i += 4093) big[i] = static_cast<char>(i);
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  stream->Send(FrameOf(big));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  CHECK((echo.handler.frames()[0] == big));
}

TEST_CASE("many streams over several queues keep their frames in order") {
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.threads = 3;
  Echo echo(options);
  constexpr int kStreams = 40, kFrames = 25;
  std::vector<std::unique_ptr<StreamClient>> clients;
  std::vector<std::unique_ptr<Recorder>> handlers;
  std::vector<std::shared_ptr<Stream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    if (i % 4 == 0) clients.push_back(Echo::Dial(echo.server->addresses().front(), echo.transport));
    handlers.push_back(std::make_unique<Recorder>());
    streams.push_back(clients.back()->Open(kEchoMethod, handlers.back().get(), &echo.loop));
  }
  for (int f = 0; f < kFrames; ++f) {
    for (int i = 0; i < kStreams; ++i) streams[i]->Send(FrameOf(fmt::format("{} {}", i, f)));
  }
  REQUIRE(echo.Until([&] {
    return std::all_of(handlers.begin(), handlers.end(),
                       [](const auto& h) { return h->frame_count() == kFrames; });
  }));
  for (int i = 0; i < kStreams; ++i) {
    for (int f = 0; f < kFrames; ++f) CHECK(handlers[i]->frames()[f] == fmt::format("{} {}", i, f));
  }
  echo.loop.Shutdown();  // the handlers are destroyed before the loop
}

TEST_CASE("frames may be sent from many threads at once") {
  Echo echo(ListenOn({"127.0.0.1:0"}));
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&stream, t] {
      for (int i = 0; i < 50; ++i) stream->Send(FrameOf(fmt::format("{}", t)));
    });
  }
  const bool all = echo.Until([&] { return echo.handler.frame_count() == 200; });
  for (auto& thread : threads) thread.join();
  REQUIRE(all);
}

TEST_CASE("a clean close flushes, and both ends get OK") {
  Echo echo(ListenOn({"127.0.0.1:0"}));
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  for (int i = 0; i < 20; ++i) stream->Send(FrameOf(std::string(100'000, 'a')));
  stream->Close(absl::OkStatus());
  stream->Send(FrameOf("ignored"));
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().ok());
  REQUIRE(echo.at_server.AwaitClosed());
  CHECK(echo.at_server.status().ok());
  CHECK(echo.at_server.frame_count() == 20);
  CHECK(echo.handler.frame_count() == 20);  // the echoes arrive before the server ends
}

TEST_CASE("a server's status arrives with its FailureInfo") {
  absl::Status why = Aborted("fenced by generation 7");
  SetFailure(&why, {.role = "chief", .index = 2, .incarnation = 99, .retryable = false});
  class Closer : public StreamHandler {
   public:
    Closer(std::shared_ptr<Stream> stream, absl::Status why)
        : stream_(std::move(stream)), why_(std::move(why)) {}
    void OnFrame(Frame) override {
      stream_->Send(FrameOf("last words"));
      stream_->Close(why_);
    }
    void OnClosed(const absl::Status&) override {}

   private:
    std::shared_ptr<Stream> stream_;
    absl::Status why_;
  };
  const StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  auto server = StreamServer::Start(
      options,
      {{"/t/Close", [&](std::shared_ptr<Stream> s,
                        CompletionLoop*) { return std::make_unique<Closer>(std::move(s), why); }},
       {"/t/Refuse", [](std::shared_ptr<Stream>, CompletionLoop*) {
          return std::unique_ptr<StreamHandler>();
        }}});
  REQUIRE(server.ok());
  const auto client = Echo::Dial((*server)->addresses().front(), options.transport);
  Recorder closed, refused;
  CompletionLoop loop;
  const auto stream = client->Open("/t/Close", &closed, &loop);
  stream->Send(FrameOf("x"));
  const auto other = client->Open("/t/Refuse", &refused, &loop);
  REQUIRE(loop.RunUntil([&] { return closed.closed() + refused.closed() == 2; }, TestDeadline()));
  CHECK(closed.frames() == std::vector<std::string>{"last words"});
  CHECK(closed.status().code() == absl::StatusCode::kAborted);
  const auto failure = GetFailure(closed.status());
  REQUIRE(failure.has_value());
  CHECK(failure->role == "chief");
  CHECK(failure->index == 2);
  CHECK(failure->incarnation == 99);
  CHECK(refused.status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("both ends see an abort") {
  Echo echo(ListenOn({"127.0.0.1:0"}));
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  stream->Send(FrameOf("x"));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  stream->Abort();
  stream->Abort();
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().code() == absl::StatusCode::kCancelled);
  REQUIRE(echo.at_server.AwaitClosed());
  CHECK(echo.at_server.status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("a client's handler ends its stream from within a frame") {
  class Ender : public Recorder {
   public:
    void OnFrame(Frame frame) override {
      Recorder::OnFrame(std::move(frame));
      abort ? stream->Abort() : stream->Close(absl::OkStatus());
    }
    bool abort = false;
    std::shared_ptr<Stream> stream;
  };
  Echo echo(ListenOn({"127.0.0.1:0"}));
  Ender ender;
  ender.abort = GENERATE(false, true);
  ender.stream = echo.client->Open(kEchoMethod, &ender, &echo.loop);
  ender.stream->Send(FrameOf("one"));
  REQUIRE(echo.Until([&] { return ender.closed() == 1; }));
  CHECK(ender.frames() == std::vector<std::string>{"one"});
  CHECK(absl::IsCancelled(ender.status()) == ender.abort);
  REQUIRE(echo.at_server.AwaitClosed());
}

TEST_CASE("an unknown method is UNIMPLEMENTED, by name") {
  Echo echo;
  const auto stream = echo.client->Open("/cohort.test.Echo/Nothing", &echo.handler, &echo.loop);
  stream->Send(FrameOf("x"));
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().code() == absl::StatusCode::kUnimplemented);
  CHECK_THAT(std::string(echo.handler.status().message()),
             Catch::Contains("/cohort.test.Echo/Nothing"));
}

TEST_CASE("a server that shuts down closes its streams with its status") {
  Echo echo(ListenOn({"127.0.0.1:0"}));
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  stream->Send(FrameOf("x"));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  bool closed = false;
  std::thread poller([&] { closed = echo.Until([&] { return echo.handler.closed() == 1; }); });
  echo.server->Shutdown(absl::OkStatus(), std::chrono::seconds(10));
  poller.join();
  REQUIRE(closed);
  INFO(echo.at_server.status());
  CHECK(echo.handler.status().ok());
  CHECK(echo.at_server.closed() == 1);
  CHECK(echo.at_server.status().ok());
}

TEST_CASE("a server shuts down although a client does not poll") {
  Echo echo(ListenOn({"127.0.0.1:0"}));
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  stream->Send(FrameOf("x"));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  echo.server.reset();
  CHECK(echo.at_server.closed() == 1);
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("a loop that is shut down ends its streams, connected or not") {
  Echo echo(ListenOn({"127.0.0.1:0"}));
  Recorder nowhere;
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  stream->Send(FrameOf("x"));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  const auto client = Echo::Dial("127.0.0.1:1");
  const auto other = client->Open(kEchoMethod, &nowhere, &echo.loop);
  other->Close(absl::OkStatus());  // waits for a connection
  echo.loop.Shutdown();
  CHECK(echo.handler.closed() == 1);
  CHECK(nowhere.closed() == 1);
  CHECK(nowhere.status().code() == absl::StatusCode::kCancelled);
  stream->Send(FrameOf("late"));
  stream->Close(absl::OkStatus());
  Recorder late;
  CHECK(client->Open(kEchoMethod, &late, &echo.loop) != nullptr);
  CHECK(late.closed() == 1);
}

TEST_CASE("limits: a frame too long, a peer that does not read") {
  Echo echo;
  StreamClient::Options options;
  options.transport.max_frame_bytes = 1000;
  options.transport.max_queued_bytes = 5000;
  auto client = StreamClient::Create(echo.server->addresses().front(), options);
  REQUIRE(client.ok());
  const auto stream = (*client)->Open(kEchoMethod, &echo.handler, &echo.loop);
  SECTION("sent") { stream->Send(FrameOf(std::string(1001, 'x'))); }
  SECTION("queued") {
    for (int i = 0; i < 10; ++i) stream->Send(FrameOf(std::string(900, 'x')));
  }
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("limits: a frame too long for the receiver") {
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.transport.max_frame_bytes = 1000;
  Echo echo(options);
  const auto stream = echo.client->Open(kEchoMethod, &echo.handler, &echo.loop);
  stream->Send(FrameOf(std::string(1001, 'x')));
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().code() == absl::StatusCode::kResourceExhausted);
}

// Both ends of streams with short pieces.
StreamServer::Options ShortPieces() {
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.transport.max_frame_bytes = 1000;
  options.transport.piece_bytes = 100;
  options.transport.max_message_bytes = 50'000;
  return options;
}

TEST_CASE("long frames travel in pieces, in order with others, and have no limit of one frame") {
  Echo echo(ShortPieces(), /*joins_pieces=*/true);
  const auto stream =
      echo.client->Open(kEchoMethod, &echo.handler, &echo.loop, {.joins_pieces = true});
  stream->Send(FrameOf("first"));  // only the answer tells what the server can do
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  std::vector<std::string> sent = {"first"};
  for (const size_t bytes : {50'000, 3, 100, 101, 117, 40'000, 0, 1001}) {
    sent.push_back(std::string(bytes, static_cast<char>('a' + sent.size())));
    stream->Send(FrameOf(sent.back()));
  }
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == sent.size(); }));
  CHECK(echo.handler.frames() == sent);
  CHECK(echo.at_server.frames() == sent);
  CHECK(stream->moved().sent > 91'000);
  CHECK(echo.loop.unfinished_bytes()->load() == 0);
  stream->Send(FrameOf(std::string(50'001, 'x')));
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("frames of many threads are cut without being mixed") {
  Echo echo(ShortPieces(), /*joins_pieces=*/true);
  const auto stream =
      echo.client->Open(kEchoMethod, &echo.handler, &echo.loop, {.joins_pieces = true});
  stream->Send(FrameOf("first"));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'e'; ++c) {
    threads.emplace_back([&stream, c] {
      for (int i = 0; i < 20; ++i) stream->Send(FrameOf(std::string(2000, c)));
    });
  }
  const bool all = echo.Until([&] { return echo.handler.frame_count() == 81; });
  for (std::thread& thread : threads) thread.join();
  REQUIRE(all);
  for (const std::string& text : echo.handler.frames()) {
    if (text != "first") CHECK(text == std::string(2000, text[0]));
  }
}

TEST_CASE("an end that does not join pieces gets frames whole, within their limit") {
  const bool server = GENERATE(true, false);
  Echo echo(ShortPieces(), server);
  const auto stream =
      echo.client->Open(kEchoMethod, &echo.handler, &echo.loop, {.joins_pieces = !server});
  const std::vector<std::string> sent = {"first", std::string(1000, 'x')};
  stream->Send(FrameOf(sent[0]));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 1; }));
  stream->Send(FrameOf(sent[1]));
  REQUIRE(echo.Until([&] { return echo.handler.frame_count() == 2; }));
  CHECK(echo.handler.frames() == sent);
  stream->Send(FrameOf(std::string(1001, 'x')));
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(echo.handler.status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("a message whose stream ends in the middle is forgotten, and may be sent again") {
  Echo echo(ShortPieces(), /*joins_pieces=*/true);
  const std::string text(50'000, 'x');
  for (int round = 1; round <= 3; ++round) {
    Recorder handler;
    const auto stream =
        echo.client->Open(kEchoMethod, &handler, &echo.loop, {.joins_pieces = true});
    stream->Send(FrameOf("first"));
    REQUIRE(echo.Until([&] { return handler.frame_count() == 1; }));
    stream->Send(FrameOf(text));
    // Part of it is under way.
    REQUIRE(echo.Until([&] { return stream->moved().sent > 2000; }));
    if (round < 3) {
      CutConnections();
      REQUIRE(echo.Until([&] { return handler.closed() == 1; }));
      continue;
    }
    REQUIRE(echo.Until([&] { return handler.frame_count() == 2; }));
    CHECK(handler.frames()[1] == text);
    stream->Close(absl::OkStatus());
    REQUIRE(echo.Until([&] { return handler.closed() == 1; }));
  }
  for (const std::string& frame : echo.at_server.frames()) {
    CHECK((frame == "first" || frame == text));
  }
}

TEST_CASE("a peer that sends a bad piece loses its stream") {
  Echo echo(ShortPieces(), /*joins_pieces=*/true);
  const auto stream =
      echo.client->Open(kEchoMethod, &echo.handler, &echo.loop, {.metadata = {{kPiecesKey, "1"}}});
  std::vector<Frame> pieces = CutFrame(FrameOf(std::string(250, 'x')), 100);
  stream->Send(std::move(pieces[0]));
  stream->Send(std::move(pieces[2]));
  REQUIRE(echo.Until([&] { return echo.handler.closed() == 1; }));
  CHECK(absl::IsInvalidArgument(echo.handler.status()));
  CHECK(echo.at_server.frame_count() == 0);
}

}  // namespace
}  // namespace cohort
