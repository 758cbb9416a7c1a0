// Credentials, statuses, control frames and the admin port.
#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/rpc/admin_server.h"
#include "common/rpc/credentials.h"
#include "common/rpc/frame_codec.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/rpc_test_util.h"
#include "common/rpc/status_proto.h"
#include "common/rpc/transport_options.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

TEST_CASE("which addresses are loopback") {
  for (const char* address :
       {"127.0.0.1:1", "127.9.9.9:22", "[::1]:5", "localhost:80", "unix:/a/b"}) {
    INFO(address);
    CHECK(IsLoopbackAddress(address));
  }
  for (const char* address :
       {"0.0.0.0:1", "[::]:1", ":1", "host3:2222", "10.0.0.1:1", "128.0.0.1:1",
        "127.0.0.1.example.com:1", "localhost.example.com:1", "", "[::1"}) {
    INFO(address);
    CHECK_FALSE(IsLoopbackAddress(address));
  }
}

TEST_CASE("a status keeps its code, message and failure on both wires") {
  absl::Status lost = Unavailable("ps:1 is gone");
  SetFailure(&lost, {.role = "ps", .index = 1, .incarnation = 1ull << 63, .retryable = true});
  for (const absl::Status& status : {absl::OkStatus(), InvalidArgument("no"), lost}) {
    v1::StatusProto proto;
    proto.set_message("stale");
    StatusToProto(status, &proto);
    CHECK(StatusFromProto(proto) == status);
    std::string failure = "stale";
    const grpc::Status translated = ToGrpcStatus(status, &failure);
    CHECK(FromGrpcStatus(translated, failure) == status);
  }
  v1::StatusProto odd;
  odd.set_code(9999);
  CHECK(StatusFromProto(odd).code() == absl::StatusCode::kUnknown);
  odd.set_code(-1);
  CHECK(StatusFromProto(odd).code() == absl::StatusCode::kUnknown);
  const auto garbled = FromGrpcStatus({grpc::StatusCode::ABORTED, "x"}, "\xff\xff");
  CHECK(garbled.code() == absl::StatusCode::kAborted);
  CHECK_FALSE(GetFailure(garbled).has_value());
}

TEST_CASE("control messages in frames") {
  v1::ChiefToWorker message;
  message.set_generation(3);
  message.mutable_adopt()->set_job(std::string(500, 'j'));
  const Frame frame = SerializeToFrame(message);
  CHECK(frame.size() == message.ByteSizeLong());
  v1::ChiefToWorker read;
  REQUIRE(ParseFromFrame(frame, &read).ok());
  CHECK(read.SerializeAsString() == message.SerializeAsString());

  const std::string bytes = message.SerializeAsString();
  const grpc::Slice halves[] = {grpc::Slice(bytes.data(), 100),
                                grpc::Slice(bytes.data() + 100, bytes.size() - 100)};
  REQUIRE(ParseFromFrame(Frame(halves, 2), &read).ok());
  CHECK(read.SerializeAsString() == bytes);

  REQUIRE(ParseFromFrame(SerializeToFrame(v1::ChiefToWorker()), &read).ok());
  CHECK(read.generation() == 0);
  REQUIRE(ParseFromFrame(Frame(), &read).ok());
  const absl::Status bad = ParseFromFrame(FrameOf("\xff\xff junk"), &read);
  CHECK(bad.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(bad.message()),
             Contains("cohort.v1.ChiefToWorker") && Contains("7 bytes"));
}

int Dial(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
  return fd;
}

std::string Http(int port, const std::string& request) {
  const int fd = Dial(port);
  const std::string whole = request + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  REQUIRE(send(fd, whole.data(), whole.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(whole.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd, buffer, sizeof(buffer), 0)) > 0;) {
    reply.append(buffer, static_cast<size_t>(n));
  }
  close(fd);
  return reply;
}

TEST_CASE("a polling thread finishes what it has begun, with the gRPC that this is made for") {
  CHECK(PrepareTransportProcess() == grpc::Version().starts_with("1.51."));
}

TEST_CASE("the admin port") {
  auto registry = std::make_shared<prometheus::Registry>();
  prometheus::BuildCounter().Name("cohort_steps_total").Register(*registry).Add({}).Increment(5);
  std::string health;
  AdminServer::Options options;
  options.address = "127.0.0.1:0";
  options.registry = registry;
  options.health = [&] { return health; };
  options.status = [] { return std::string("worker:1, 3 closures\n"); };
  auto server = AdminServer::Start(options);
  REQUIRE(server.ok());
  const int port = (*server)->port();
  CHECK_THAT(Http(port, "GET /metrics"), Contains("200 OK") && Contains("cohort_steps_total 5"));
  CHECK_THAT(Http(port, "GET /healthz"), Contains("200 OK") && Contains("ok"));
  CHECK_THAT(Http(port, "GET /statusz"), Contains("worker:1, 3 closures"));
  CHECK_THAT(Http(port, "GET /etc/passwd"), Contains("404"));
  CHECK_THAT(Http(port, "GET /"), Contains("404"));
  CHECK_THAT(Http(port, "POST /metrics"), Contains("405"));
  const std::string head = Http(port, "HEAD /statusz");
  CHECK_THAT(head, Contains("200 OK") && !Contains("closures"));
  health = "the chief is not heard";
  CHECK_THAT(Http(port, "GET /healthz"), Contains("503") && Contains("chief is not heard"));

  options.address = fmt::format("127.0.0.1:{}", port);
  const auto second = AdminServer::Start(options);
  CHECK(second.status().code() == absl::StatusCode::kAlreadyExists);
  CHECK_THAT(std::string(second.status().message()), Contains(options.address));
  server->reset();
  CHECK(AdminServer::Start(options).ok());  // free again
  options.address = "0.0.0.0:0";
  CHECK(AdminServer::Start(options).status().code() == absl::StatusCode::kFailedPrecondition);
  options.address = "unix:/tmp/x";
  CHECK(AdminServer::Start(options).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("connections that say nothing do not keep the admin port from others") {
  AdminServer::Options options;
  options.address = "127.0.0.1:0";
  options.request_timeout = std::chrono::milliseconds(50);
  auto server = AdminServer::Start(options);
  REQUIRE(server.ok());
  std::vector<int> silent;
  for (int i = 0; i < 24; ++i) {
    silent.push_back(Dial((*server)->port()));
    if (i % 2 == 0) REQUIRE(send(silent.back(), "GET", 3, MSG_NOSIGNAL) == 3);
  }
  CHECK_THAT(Http((*server)->port(), "GET /healthz"), Contains("200 OK"));
  char byte = 0;
  for (const int fd : silent) {  // each was closed
    while (recv(fd, &byte, 1, 0) > 0) {
    }
    close(fd);
  }
}

}  // namespace
}  // namespace cohort
