#include "common/rpc/stream/socket_stream.h"

#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <random>

#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/rpc/stream/rpc_test_util.h"

namespace cohort {
namespace {

// A server that passes sockets to the test, and serves an echo over gRPC at the same addresses.
class SocketServer {
 public:
  SocketServer() {
    StreamServer::Options options = ListenOn({"127.0.0.1:0", "unix:" + TestSocketPath("sockets")});
    options.take_socket = [this](UniqueFd connection) {
      MutexLock lock(&mu_);
      connections_.push_back(std::move(connection));
      came_.SignalAll();
    };
    auto server = StreamServer::Start(options, EchoMethods());
    REQUIRE(server.ok());
    server_ = *std::move(server);
  }

  const std::vector<std::string>& addresses() const { return server_->addresses(); }
  // The next connection.
  UniqueFd Take() {
    const auto deadline = TestDeadline();
    MutexLock lock(&mu_);
    while (connections_.empty() && came_.WaitUntil(&mu_, deadline)) {
    }
    if (connections_.empty()) return UniqueFd();
    UniqueFd connection = std::move(connections_.front());
    connections_.erase(connections_.begin());
    return connection;
  }

 private:
  Mutex mu_;
  CondVar came_;
  std::vector<UniqueFd> connections_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<StreamServer> server_;
};

// Forwards the end of the accepting end to a recorder of the test.
class Forwarder final : public StreamHandler {
 public:
  explicit Forwarder(Recorder* to) : to_(to) {}
  void OnFrame(Frame) override {}
  void OnClosed(const absl::Status& status) override { to_->OnClosed(status); }

 private:
  Recorder* const to_;
};

// Both ends of one stream, on the loop of the test.
struct Ends {
  Ends(SocketServer* server, const std::string& address, StreamHandler* reader) {
    in = SocketStream::Dial(&loop, address, {.name = "a name"}, reader);
    // The connection is made when the first byte was sent.
    REQUIRE(loop.PollOnce(TestDeadline()));
    UniqueFd connection = server->Take();
    REQUIRE(connection.ok());
    CHECK(SocketStream::TakeName(connection) == "a name");
    out = SocketStream::Accept(&loop, std::move(connection));
    out->Serve(std::make_unique<Forwarder>(&sender));
  }
  template <typename Done>
  bool Until(const Done& done) {
    const auto deadline = TestDeadline();
    while (!done() && loop.PollOnce(deadline)) {
    }
    return done();
  }

  Recorder sender;  // outlives the loop, whose end it learns
  SocketLoop loop;
  std::shared_ptr<SocketStream> in, out;
};

std::string TextOfLength(size_t length) {
  std::string text(length, '\0');
  for (size_t i = 0; i < length; ++i) text[i] = static_cast<char>('a' + i % 23);
  return text;
}

TEST_CASE("frames of all sizes arrive in order, over TCP and unix sockets") {
  SocketServer server;
  for (const std::string& address : server.addresses()) {
    INFO(address);
    Recorder reader;
    Ends ends(&server, address, &reader);
    CHECK(reader.connected());
    std::vector<std::string> sent;
    for (const size_t length :
         {0, 1, 3, 255, 4095, 4096, 4097, 5000, 70'000, 3'000'001, 7, 0, 9000}) {
      sent.push_back(TextOfLength(length));
      ends.out->Send(FrameOf(sent.back()));
    }
    CHECK(ends.Until([&] { return reader.frame_count() == sent.size(); }));
    CHECK(reader.frames() == sent);
    CHECK(ends.out->queued_bytes() == 0);
    ends.out->Close(absl::OkStatus());
    CHECK(ends.Until([&] { return reader.closed() == 1 && ends.sender.closed() == 1; }));
    CHECK(reader.status().ok());
    CHECK(ends.sender.status().ok());
    ends.out->Send(FrameOf("late"));
    CHECK(reader.frames() == sent);
  }
}

TEST_CASE("gRPC and sockets share an address") {
  SocketServer server;
  for (const std::string& address : server.addresses()) {
    INFO(address);
    Recorder reader;
    Ends ends(&server, address, &reader);
    auto client = StreamClient::Create(address, {});
    REQUIRE(client.ok());
    CompletionLoop loop;
    Recorder recorder;
    const auto stream = (*client)->Open(kEchoMethod, &recorder, &loop, {});
    stream->Send(FrameOf("over gRPC"));
    CHECK(loop.RunUntil([&] { return recorder.frame_count() == 1; }, TestDeadline()));
    loop.Shutdown();
  }
}

TEST_CASE("the accepting end closes with a status after what is queued") {
  SocketServer server;
  Recorder reader;
  Ends ends(&server, server.addresses()[0], &reader);
  absl::Status why = DataLoss("a reason");
  SetFailure(&why, {.role = "worker", .index = 3, .incarnation = 9, .retryable = true});
  const std::string large = TextOfLength(20'000'000);
  ends.out->Send(FrameOf(large));
  ends.out->Close(why);
  CHECK(ends.sender.closed() == 0);
  CHECK(ends.Until([&] { return reader.closed() == 1; }));
  CHECK(reader.frames() == std::vector<std::string>{large});
  CHECK(absl::IsDataLoss(reader.status()));
  REQUIRE(GetFailure(reader.status()).has_value());
  CHECK(GetFailure(reader.status())->index == 3);
}

TEST_CASE("the dialing end closes, and still gets what is queued") {
  SocketServer server;
  Recorder reader;
  Ends ends(&server, server.addresses()[0], &reader);
  const std::string large = TextOfLength(20'000'000);
  ends.out->Send(FrameOf(large));
  ends.in->Close(absl::OkStatus());
  CHECK(ends.Until([&] { return reader.closed() == 1 && ends.sender.closed() == 1; }));
  CHECK(reader.frames() == std::vector<std::string>{large});
  CHECK(reader.status().ok());
  CHECK(ends.sender.status().ok());
}

TEST_CASE("an end that is gone is noticed by the other one") {
  SocketServer server;
  const bool dialing = GENERATE(false, true);
  Recorder reader;
  Ends ends(&server, server.addresses()[0], &reader);
  ends.out->Send(FrameOf(TextOfLength(20'000'000)));
  (dialing ? ends.in : ends.out)->Abort();
  CHECK((ends.out->queued_bytes() > 0) == dialing);
  CHECK(ends.Until([&] { return reader.closed() == 1 && ends.sender.closed() == 1; }));
  CHECK(ends.out->queued_bytes() == 0);
  CHECK(absl::IsCancelled((dialing ? reader : ends.sender).status()));
  CHECK(reader.frame_count() == 0);
  if (!dialing) CHECK(absl::IsUnavailable(reader.status()));
}

TEST_CASE("a stream that is refused, or reaches nobody, ends with a reason") {
  SocketLoop loop;
  std::string free_address;
  {
    SocketServer server;
    free_address = server.addresses()[0];
    Recorder refused;
    SocketStream::Dial(&loop, server.addresses()[0], {.name = "x"}, &refused);
    REQUIRE(loop.PollOnce(TestDeadline()));
    SocketStream::Refuse(server.Take(), Unavailable("another incarnation"));
    const auto deadline = TestDeadline();
    while (refused.closed() == 0 && loop.PollOnce(deadline)) {
    }
    CHECK(absl::IsUnavailable(refused.status()));
    CHECK(refused.status().message() == "another incarnation");
  }
  for (const std::string& address :
       {free_address, std::string("unix:/nowhere/x.sock"), std::string("127.0.0.1:nonsense")}) {
    INFO(address);
    Recorder recorder;
    SocketStream::Dial(&loop, address, {.name = "x"}, &recorder);
    const auto deadline = TestDeadline();
    while (recorder.closed() == 0 && loop.PollOnce(deadline)) {
    }
    CHECK(recorder.closed() == 1);
    CHECK(!recorder.status().ok());
    CHECK(!recorder.connected());
  }
}

TEST_CASE("Wake ends a poll, and Shutdown ends the streams") {
  SocketServer server;
  Recorder reader;
  Ends ends(&server, server.addresses()[0], &reader);
  CHECK(!ends.loop.PollOnce(std::chrono::steady_clock::now()));
  ends.loop.Wake();
  CHECK(ends.loop.PollOnce(TestDeadline()));
  ends.loop.Shutdown();
  CHECK(reader.closed() == 1);
  CHECK(ends.sender.closed() == 1);
}

TEST_CASE("a frame that was damaged on its way ends the stream") {
  SocketServer server;
  for (const size_t size : {5, 100'000}) {
    for (const bool damaged : {false, true}) {
      SocketLoop loop;
      Recorder reader;
      SocketStream::Dial(&loop, server.addresses()[0], {.name = "x"}, &reader);
      REQUIRE(loop.PollOnce(TestDeadline()));
      std::string body = TextOfLength(size);
      const uint32_t head[] = {static_cast<uint32_t>(size), Crc32c(body)};
      if (damaged) body[size / 2] ^= 1;
      {
        const UniqueFd connection = server.Take();
        REQUIRE(send(connection.get(), head, sizeof(head), MSG_NOSIGNAL) == sizeof(head));
        REQUIRE(send(connection.get(), body.data(), size, MSG_NOSIGNAL) ==
                static_cast<ssize_t>(size));
      }
      const auto deadline = TestDeadline();
      while (reader.closed() == 0 && loop.PollOnce(deadline)) {
      }
      CHECK(reader.frame_count() == (damaged ? 0 : 1));
      CHECK(absl::IsUnavailable(reader.status()));
      const std::string why(reader.status().message());
      CHECK((why.find("was damaged on its way") != std::string::npos) == damaged);
    }
  }
}

// Whatever a peer sends: frames, or an end with a reason.
TEST_CASE("bytes that are no frames never crash the reader") {
  SocketServer server;
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    SocketLoop loop;
    Recorder reader;
    SocketStream::Dial(&loop, server.addresses()[0], {.name = "x"}, &reader);
    REQUIRE(loop.PollOnce(TestDeadline()));
    {
      const UniqueFd connection = server.Take();
      std::string bytes;
      for (int i = 0; i < 3; ++i) {
        const uint32_t word = round % 2 == 0 ? static_cast<uint32_t>(random())
                                             : (static_cast<uint32_t>(random()) & 0x80000fff);
        bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
        for (size_t k = random() % 6000; k > 0; --k) bytes += static_cast<char>(random());
      }
      REQUIRE(send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(bytes.size()));
    }
    const auto deadline = TestDeadline();
    while (reader.closed() == 0 && loop.PollOnce(deadline)) {
    }
    CHECK(reader.closed() == 1);
  }
}

}  // namespace
}  // namespace cohort
