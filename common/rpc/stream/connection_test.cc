// Streams together with processes, ports and networks.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>

#include "common/rpc/stream/rpc_test_process.h"
#include "common/rpc/stream/rpc_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

std::unique_ptr<StreamClient> Dial(const std::string& address, TransportOptions transport = {}) {
  auto created = StreamClient::Create(address, {.transport = transport});
  REQUIRE(created.ok());
  return *std::move(created);
}

std::unique_ptr<StreamServer> Serve(StreamServer::Options options, Recorder* recorder = nullptr) {
  auto started = StreamServer::Start(options, EchoMethods(recorder));
  INFO(started.status());
  REQUIRE(started.ok());
  return *std::move(started);
}

TEST_CASE("a killed server is seen at once") {
  TestPeer peer("serve", "127.0.0.1:0");
  const auto client = Dial("127.0.0.1:" + peer.ReadLine());
  Recorder handler;
  CompletionLoop loop;
  const auto stream = client->Open(kEchoMethod, &handler, &loop);
  stream->Send(FrameOf("x"));
  REQUIRE(loop.RunUntil([&] { return handler.frame_count() == 1; }, TestDeadline()));
  peer.Signal(SIGKILL);
  REQUIRE(loop.RunUntil([&] { return handler.closed() == 1; }, TestDeadline()));
  CHECK(handler.status().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(MessageOf(handler.status()), Contains(client->address()));
}

TEST_CASE("a killed client is seen by the server") {
  Recorder at_server;
  const auto server = Serve(ListenOn({"127.0.0.1:0"}), &at_server);
  TestPeer peer("dial", server->addresses().front());
  REQUIRE(peer.ReadLine() == "open");
  peer.Signal(SIGKILL);
  REQUIRE(at_server.AwaitClosed());
  CHECK(at_server.status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("a program that does not link the overrides keeps the functions of gRPC") {
  TestPeer peer("overrides", "-");
  CHECK(peer.ReadLine() == "executor 0, tls 0");
}

TEST_CASE("a silent peer is lost after the keepalive's limits, at either end") {
  TransportOptions quick;
  quick.keepalive_interval = std::chrono::milliseconds(200);
  quick.keepalive_timeout = std::chrono::milliseconds(300);
  quick.server_keepalive_timeout = std::chrono::milliseconds(300);
  SECTION("a stopped server") {
    TestPeer peer("serve", "127.0.0.1:0");
    const auto client = Dial("127.0.0.1:" + peer.ReadLine(), quick);
    Recorder handler;
    CompletionLoop loop;
    const auto stream = client->Open(kEchoMethod, &handler, &loop);
    stream->Send(FrameOf("x"));
    REQUIRE(loop.RunUntil([&] { return handler.frame_count() == 1; }, TestDeadline()));
    peer.Signal(SIGSTOP);
    REQUIRE(loop.RunUntil([&] { return handler.closed() == 1; }, TestDeadline()));
    CHECK(handler.status().code() == absl::StatusCode::kUnavailable);
  }
  SECTION("a stopped client") {
    Recorder at_server;
    StreamServer::Options options = ListenOn({"127.0.0.1:0"});
    options.transport = quick;
    const auto server = Serve(options, &at_server);
    TestPeer peer("dial", server->addresses().front());
    REQUIRE(peer.ReadLine() == "open");
    peer.Signal(SIGSTOP);
    REQUIRE(at_server.AwaitClosed());
    CHECK(at_server.status().code() == absl::StatusCode::kUnavailable);
  }
}

TEST_CASE("a client may start before its server and outlive it") {
  int port = 0;
  { port = Serve(ListenOn({"127.0.0.1:0"}))->port(); }
  const std::string address = "127.0.0.1:" + std::to_string(port);
  const auto client = Dial(address);
  Recorder early, again;
  CompletionLoop loop;
  const auto stream = client->Open(kEchoMethod, &early, &loop);
  stream->Send(FrameOf("early"));
  // A few failed attempts, so that the pauses between them have grown.
  CHECK_FALSE(loop.RunUntil([&] { return early.closed() > 0; },
                            CompletionLoop::Clock::now() + std::chrono::milliseconds(700)));
  auto server = Serve(ListenOn({address}));
  REQUIRE(loop.RunUntil([&] { return early.frame_count() == 1; }, TestDeadline()));
  server.reset();
  REQUIRE(loop.RunUntil([&] { return early.closed() == 1; }, TestDeadline()));
  server = Serve(ListenOn({address}));  // at once on the same port
  const auto other = client->Open(kEchoMethod, &again, &loop);
  other->Send(FrameOf("again"));
  REQUIRE(loop.RunUntil([&] { return again.frame_count() == 1; }, TestDeadline()));
}

TEST_CASE("a client with a send buffer of its own has one connection, which it makes at once") {
  const std::string address = "unix:" + TestSocketPath("buffer");
  const StreamClient::Options options{.send_buffer_bytes = 1 << 20};
  const auto early = StreamClient::Create(address, options);
  CHECK(early.status().code() == absl::StatusCode::kUnavailable);
  CHECK_THAT(MessageOf(early.status()), Contains(address));
  auto server = Serve(ListenOn({address}));
  const auto client = StreamClient::Create(address, options);
  REQUIRE(client.ok());
  Recorder first, second, third;
  CompletionLoop loop;
  const auto stream = (*client)->Open(kEchoMethod, &first, &loop);
  const auto other = (*client)->Open(kEchoMethod, &second, &loop);
  const std::string large(3 << 20, 'x');
  stream->Send(FrameOf(large));
  other->Send(FrameOf("y"));
  REQUIRE(loop.RunUntil([&] { return first.frame_count() + second.frame_count() == 2; },
                        TestDeadline()));
  CHECK(first.connected());
  CHECK((first.frames().front() == large && second.frames().front() == "y"));
  server.reset();
  REQUIRE(loop.RunUntil([&] { return first.closed() + second.closed() == 2; }, TestDeadline()));
  CHECK(first.status().code() == absl::StatusCode::kUnavailable);
  server = Serve(ListenOn({address}));
  const auto late = (*client)->Open(kEchoMethod, &third, &loop);
  REQUIRE(loop.RunUntil([&] { return third.closed() == 1; }, TestDeadline()));
  CHECK(third.status().code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("a failure to connect names the address, at once or at the limit") {
  const auto client = Dial("127.0.0.1:1");
  Recorder limited, impatient;
  CompletionLoop loop;
  StreamClient::OpenOptions options;
  options.connect_timeout = std::chrono::milliseconds(100);
  const auto stream = client->Open(kEchoMethod, &limited, &loop, options);
  const auto other = client->Open(kEchoMethod, &impatient, &loop, {.wait_for_ready = false});
  REQUIRE(
      loop.RunUntil([&] { return limited.closed() + impatient.closed() == 2; }, TestDeadline()));
  CHECK(limited.status().code() == absl::StatusCode::kDeadlineExceeded);
  CHECK_THAT(MessageOf(limited.status()), Contains("127.0.0.1:1") && Contains("100 ms"));
  CHECK(impatient.status().code() == absl::StatusCode::kUnavailable);
  CHECK(MessageOf(impatient.status()) == "127.0.0.1:1: connection refused");
}

TEST_CASE("a taken address is an error that names it") {
  const std::string path = TestSocketPath("taken");
  const auto server = Serve(ListenOn({"127.0.0.1:0", "unix:" + path}));
  for (const std::string& address : server->addresses()) {
    const auto second = StreamServer::Start(ListenOn({address}), EchoMethods());
    CHECK(second.status().code() == absl::StatusCode::kAlreadyExists);
    CHECK_THAT(MessageOf(second.status()), Contains(address) && Contains("taken"));
  }
  // The first still serves.
  const auto client = Dial("unix:" + path);
  Recorder handler;
  CompletionLoop loop;
  const auto stream = client->Open(kEchoMethod, &handler, &loop);
  stream->Send(FrameOf("x"));
  CHECK(loop.RunUntil([&] { return handler.frame_count() == 1; }, TestDeadline()));
}

TEST_CASE("an address that cannot be listened on is refused with a reason") {
  const struct {
    const char* address;
    absl::StatusCode code;
    const char* contains;
  } cases[] = {
      {"0.0.0.0:0", absl::StatusCode::kFailedPrecondition, "--allow_insecure"},
      {"[::]:0", absl::StatusCode::kFailedPrecondition, "--allow_insecure"},
      {"host3:2222", absl::StatusCode::kFailedPrecondition, "host3:2222"},
      {"127.0.0.1", absl::StatusCode::kInvalidArgument, "host:port"},
      {"127.0.0.1:port", absl::StatusCode::kInvalidArgument, "127.0.0.1:port"},
      {"unix:", absl::StatusCode::kInvalidArgument, "path"},
      {"unix:/no/such/folder/x", absl::StatusCode::kInvalidArgument, "/no/such/folder"},
  };
  for (const auto& c : cases) {
    INFO(c.address);
    const auto server = StreamServer::Start(ListenOn({c.address}), {});
    CHECK(server.status().code() == c.code);
    CHECK_THAT(MessageOf(server.status()), Contains(c.contains));
  }
  const auto longer = StreamServer::Start(ListenOn({"unix:/tmp/" + std::string(120, 'x')}), {});
  CHECK_THAT(MessageOf(longer.status()), Contains("107"));
  CHECK_FALSE(StreamServer::Start({}, {}).ok());
}

TEST_CASE("plaintext beyond loopback is refused at both ends without --allow_insecure") {
  const auto refused = StreamClient::Create("10.0.0.1:2222", {});
  CHECK(refused.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(MessageOf(refused.status()), Contains("10.0.0.1:2222") && Contains("allow_insecure"));
  const auto trusted = Security::Create(/*allow_insecure=*/true);
  CHECK(StreamClient::Create("10.0.0.1:2222", {.security = trusted}).ok());
  CHECK_FALSE(StreamClient::Create("127.0.0.1", {}).ok());
  StreamServer::Options options = ListenOn({"0.0.0.0:0"});
  options.security = trusted;
  const auto server = Serve(options);
  CHECK(server->port() > 0);
}

TEST_CASE("gRPC health answers for the server and its services") {
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.health_services = {"cohort.v1.Worker"};
  const auto server = Serve(options);
  const auto client = Dial(server->addresses().front());
  Recorder watcher;
  CompletionLoop loop;
  // HealthCheckRequest{service = 1}; HealthCheckResponse{status = 1}: 1 SERVING, 2 NOT_SERVING.
  const auto request = [](const std::string& service) {
    return service.empty()
               ? FrameOf("")
               : FrameOf(std::string("\x0a") + static_cast<char>(service.size()) + service);
  };
  // Like a unary call: one message, a half-close, one answer, a status.
  const auto check = [&](Frame message, std::string* answer) {
    Recorder handler;
    const auto stream = client->Open("/grpc.health.v1.Health/Check", &handler, &loop);
    stream->Send(std::move(message));
    stream->Close(absl::OkStatus());
    REQUIRE(loop.RunUntil([&] { return handler.closed() == 1; }, TestDeadline()));
    if (handler.frame_count() == 1) *answer = handler.frames()[0];
    return handler.status().code();
  };
  std::string answer;
  CHECK(check(request(""), &answer) == absl::StatusCode::kOk);
  CHECK(answer == "\x08\x01");
  CHECK(check(request("cohort.v1.Worker"), &answer) == absl::StatusCode::kOk);
  CHECK(answer == "\x08\x01");
  CHECK(check(request("cohort.v1.Other"), &answer) == absl::StatusCode::kNotFound);
  CHECK(check(FrameOf("\x0a\xff junk"), &answer) == absl::StatusCode::kInvalidArgument);

  const auto watch = client->Open("/grpc.health.v1.Health/Watch", &watcher, &loop);
  watch->Send(request("cohort.v1.Worker"));
  watch->Close(absl::OkStatus());  // a half-close: the answers still arrive
  REQUIRE(loop.RunUntil([&] { return watcher.frame_count() == 1; }, TestDeadline()));
  server->SetServing(false);
  REQUIRE(loop.RunUntil([&] { return watcher.frame_count() == 2; }, TestDeadline()));
  CHECK(watcher.frames()[1] == "\x08\x02");
  CHECK(check(request(""), &answer) == absl::StatusCode::kOk);
  CHECK(answer == "\x08\x02");
  CHECK(watcher.closed() == 0);
  watch->Abort();
  REQUIRE(loop.RunUntil([&] { return watcher.closed() == 1; }, TestDeadline()));
}

TEST_CASE("a server is found by the name of the host too") {
  const auto server = Serve(ListenOn({"localhost:0"}));
  REQUIRE(server->port() > 0);
  for (const std::string host : {"localhost", "127.0.0.1"}) {
    const auto client = Dial(host + ":" + std::to_string(server->port()));
    Recorder handler;
    CompletionLoop loop;
    const auto stream = client->Open(kEchoMethod, &handler, &loop);
    stream->Send(FrameOf("x"));
    CHECK(loop.RunUntil([&] { return handler.frame_count() == 1; }, TestDeadline()));
  }
}

TEST_CASE("a peer that does not speak HTTP/2 does no harm") {
  const auto server = Serve(ListenOn({"127.0.0.1:0"}));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(server->port()));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
  const std::string junk(100'000, '\xff');
  CHECK(send(fd, junk.data(), junk.size(), MSG_NOSIGNAL) > 0);
  char byte;
  while (recv(fd, &byte, 1, 0) > 0) {
  }
  close(fd);
  const auto client = Dial(server->addresses().front());
  Recorder handler;
  CompletionLoop loop;
  const auto stream = client->Open(kEchoMethod, &handler, &loop);
  stream->Send(FrameOf("x"));
  CHECK(loop.RunUntil([&] { return handler.frame_count() == 1; }, TestDeadline()));
}

}  // namespace
}  // namespace cohort
