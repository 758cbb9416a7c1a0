// The health and metrics port.
#include "common/rpc/admin/admin_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <future>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/status.h"
#include "common/base/unique_fd.h"

namespace cohort {
namespace {

using Catch::Contains;

UniqueFd Dial(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
  return fd;
}

void Send(const UniqueFd& fd, std::string_view text) {
  REQUIRE(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(text.size()));
}

// Reads until the other end closes.
std::string ReadAll(const UniqueFd& fd) {
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    reply.append(buffer, static_cast<size_t>(n));
  }
  return reply;
}

std::string Raw(int port, std::string_view request) {
  const UniqueFd fd = Dial(port);
  Send(fd, request);
  return ReadAll(fd);
}

std::string Http(int port, const std::string& request) {
  return Raw(port, request + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

bool IsOpen(const UniqueFd& fd) {
  char byte = 0;
  return recv(fd.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

// An admin port on loopback.
struct Served {
  explicit Served(AdminServer::Options options = {}) {
    options.address = "127.0.0.1:0";
    auto started = AdminServer::Start(std::move(options));
    REQUIRE(started.ok());
    server = *std::move(started);
  }
  int port() const { return server->port(); }

  std::unique_ptr<AdminServer> server;
};

TEST_CASE("the admin port") {
  MetricsRegistry registry;
  registry.AddCounter("cohort_steps_total", "Steps.")->Increment(5);
  std::string health;
  std::string readiness = "restoring ckpt-3";
  AdminServer::Options options;
  options.metrics = [&] { return registry.Text(); };
  options.health = [&] { return health; };
  options.readiness = [&] { return readiness; };
  options.status = [] { return std::string("worker:1, 3 closures\n"); };
  options.status_json = [] { return std::string(R"({"step": 7})"); };
  Served served(options);
  const int port = served.port();
  CHECK_THAT(Http(port, "GET /metrics"), Contains("200 OK") && Contains("cohort_steps_total 5"));
  CHECK_THAT(Http(port, "GET /healthz"), Contains("200 OK") && Contains("ok"));
  CHECK_THAT(Http(port, "GET /statusz"), Contains("worker:1, 3 closures"));
  CHECK_THAT(Http(port, "GET /status.json"), Contains("{\"step\": 7}\n"));
  CHECK_THAT(Http(Served().port(), "GET /status.json"), Contains("404"));
  CHECK_THAT(Http(port, "GET /metrics"), Contains("process_resident_memory_bytes"));
  CHECK_THAT(Http(port, "GET /etc/passwd"), Contains("404"));
  CHECK_THAT(Http(port, "GET /"), Contains("404"));
  CHECK_THAT(Http(port, "GET /statusz?verbose=1"), Contains("worker:1, 3 closures"));
  CHECK_THAT(Http(port, "POST /metrics"), Contains("405"));
  const std::string head = Http(port, "HEAD /statusz");
  CHECK_THAT(head, Contains("200 OK") && !Contains("closures"));
  CHECK_THAT(Http(port, "GET /readyz"), Contains("503") && Contains("restoring ckpt-3"));
  readiness = "";
  CHECK_THAT(Http(port, "GET /readyz"), Contains("200 OK") && Contains("ok"));
  health = "the chief is not heard";
  CHECK_THAT(Http(port, "GET /healthz"), Contains("503") && Contains("chief is not heard"));

  options.address = fmt::format("127.0.0.1:{}", port);
  const auto second = AdminServer::Start(options);
  CHECK(second.status().code() == absl::StatusCode::kAlreadyExists);
  CHECK_THAT(std::string(second.status().message()), Contains(options.address));
  served.server.reset();
  CHECK(AdminServer::Start(options).ok());  // free again
  options.address = "0.0.0.0:0";
  const auto everywhere = AdminServer::Start(options);
  REQUIRE(everywhere.ok());
  CHECK_THAT(Http((*everywhere)->port(), "GET /readyz"), Contains("200 OK"));
  options.address = "unix:/tmp/x";
  CHECK(AdminServer::Start(options).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("silent connections do not block others") {
  const Served served({.request_timeout = std::chrono::seconds(1)});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 24; ++i) {
    silent.push_back(Dial(served.port()));
    if (i % 2 == 0) Send(silent.back(), "GET");
  }
  CHECK_THAT(Http(served.port(), "GET /healthz"), Contains("200 OK"));
  char byte = 0;
  for (const UniqueFd& fd : silent) {  // each was closed
    while (recv(fd.get(), &byte, 1, 0) > 0) {
    }
  }
}

TEST_CASE("half a request blocks no other request") {
  const Served served({.request_timeout = std::chrono::seconds(60)});
  std::vector<UniqueFd> half;
  for (int i = 0; i < 50; ++i) {
    half.push_back(Dial(served.port()));
    Send(half.back(), "G");
  }
  CHECK_THAT(Http(served.port(), "GET /metrics"), Contains("200 OK"));
  CHECK(IsOpen(half.front()));  // their time is not over
  Send(half.front(), "ET /healthz HTTP/1.1\r\n");
  Send(half.front(), "Host: x\r\n\r\n");
  CHECK_THAT(ReadAll(half.front()), Contains("200 OK") && Contains("ok\n"));
}

TEST_CASE("beyond the limit new connections wait until others are closed") {
  const Served served({.request_timeout = std::chrono::seconds(1), .most_connections = 8});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(Dial(served.port()));
  CHECK_THAT(Http(served.port(), "GET /healthz"), Contains("200 OK"));
}

TEST_CASE("a handler that hangs does not block others") {
  std::promise<void> asked;
  std::promise<void> go_on;
  const Served served({.status = [&] {
    asked.set_value();
    go_on.get_future().wait();
    return std::string("late\n");
  }});
  const UniqueFd hangs = Dial(served.port());
  Send(hangs, "GET /statusz HTTP/1.1\r\nHost: x\r\n\r\n");
  asked.get_future().wait();
  for (int i = 0; i < 20; ++i) {
    CHECK_THAT(Http(served.port(), "GET /healthz"), Contains("200 OK"));
  }
  go_on.set_value();
  CHECK_THAT(ReadAll(hangs), Contains("late"));
}

TEST_CASE("a malformed request is refused") {
  const Served served;
  const int port = served.port();
  for (const char* odd : {"\r\n\r\nnonsense\r\n\r\n", "nonsense\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
                          "GET /healthz SPDY/3\r\n\r\n"}) {
    INFO(odd);
    CHECK_THAT(Raw(port, odd), !Contains("200 OK"));
  }
  CHECK_THAT(Raw(port, "GET /healthz HTTP/1.0\r\n\r\n"), Contains("200 OK"));
  CHECK_THAT(Raw(port, "GET /" + std::string(100'000, 'x')), Contains("HTTP/1.1 414 "));
  // With a body that the server does not read.
  CHECK_THAT(Raw(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" +
                           std::string(100'000, 'x')),
             Contains("HTTP/1.1 405 "));
}

TEST_CASE("a reply to a slow reader arrives whole and blocks no other") {
  const Served served({.status = [] { return std::string(20 << 20, 'x'); },
                       .request_timeout = std::chrono::seconds(60)});
  const UniqueFd slow = Dial(served.port());
  Send(slow, "GET /statusz HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK_THAT(Http(served.port(), "GET /healthz"), Contains("200 OK"));
  const std::string reply = ReadAll(slow);
  CHECK(reply.size() - reply.find("\r\n\r\n") - 4 == 20 << 20);
}

}  // namespace
}  // namespace cohort
