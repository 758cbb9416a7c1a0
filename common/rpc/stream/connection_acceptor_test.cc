// Neighbors: connections that a server must not serve, and must survive.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "common/base/unique_fd.h"
#include "common/cluster/run_secret.h"
#include "common/rpc/stream/pending_peers.h"
#include "common/rpc/stream/rpc_test_util.h"
#include "common/rpc/stream/socket_stream.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"
#include "common/tls/tls_test_files.h"

namespace cohort {
namespace {

using Catch::Matchers::Contains;
using testing::Message;

constexpr char kHealth[] = "/grpc.health.v1.Health/Check";

std::unique_ptr<StreamServer> StartServer(std::vector<std::string> listen,
                                          std::shared_ptr<const Security> security) {
  StreamServer::Options options = ListenOn(std::move(listen));
  options.security = std::move(security);
  auto server = StreamServer::Start(options, EchoMethods());
  INFO(server.status());
  REQUIRE(server.ok());
  return *std::move(server);
}

// Calls a method once. OK if the server has taken the stream.
absl::Status Call(const std::string& address, std::shared_ptr<const Security> security,
                  const char* method = kEchoMethod) {
  const auto client =
      StreamClient::Create(address, {.security = std::move(security), .task = std::nullopt});
  REQUIRE(client.ok());
  Recorder recorder;
  CompletionLoop loop;
  const auto stream = (*client)->Open(method, &recorder, &loop, {.wait_for_ready = false});
  stream->Send(FrameOf(method == kEchoMethod ? "hello" : ""));
  loop.RunUntil([&] { return recorder.frame_count() > 0 || recorder.closed() > 0; },
                TestDeadline());
  if (recorder.frame_count() > 0) return absl::OkStatus();
  return recorder.closed() > 0 ? recorder.status() : absl::DeadlineExceededError("no answer");
}

UniqueFd ConnectTo(const std::string& host, int port) {
  if (host == "[::1]") {
    sockaddr_in6 name = {};
    name.sin6_family = AF_INET6;
    name.sin6_port = htons(static_cast<uint16_t>(port));
    name.sin6_addr = in6addr_loopback;
    UniqueFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) fd.Close();
    return fd;
  }
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<uint16_t>(port));
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) fd.Close();
  return fd;
}

void Send(const UniqueFd& to, const std::string& bytes) {
  [[maybe_unused]] const ssize_t sent = send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// All that arrives until the server closes.
std::string ReadAll(const UniqueFd& from) {
  std::string bytes;
  char part[4096];
  ssize_t got = 0;
  while ((got = recv(from.get(), part, sizeof(part), 0)) > 0) {
    bytes.append(part, static_cast<size_t>(got));
  }
  return bytes;
}

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kSettings("\0\0\0\4\0\0\0\0\0", 9);

TEST_CASE("on loopback a process of another user gets no byte of a server", "[root]") {
  if (geteuid() != 0) {
    WARN("only root can become another user");
    return;
  }
  const std::string host = GENERATE("127.0.0.1", "[::1]");
  const auto security = Security::Create(/*allow_insecure=*/false);
  const auto server = StartServer({host + ":0"}, security);
  const auto child_stays = [&](uid_t user, bool closes) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      if (setuid(user) != 0) _exit(2);
      UniqueFd fd = ConnectTo(host, server->port());
      Send(fd, kPreface + kSettings);
      if (closes) _exit(0);
      _exit(ReadAll(fd).size() > 0 ? 1 : 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) != 2);
    return WEXITSTATUS(status) == 1;
  };
  CHECK_FALSE(child_stays(65534, false));
  CHECK(security->refusals()->count(RefusalReason::kUser) == 1);
  // A socket without a process would count as root's.
  CHECK_FALSE(child_stays(65534, true));
  const auto deadline = TestDeadline();
  while (security->refusals()->count(RefusalReason::kUser) < 2 &&
         CompletionLoop::Clock::now() < deadline) {
    std::this_thread::yield();
  }
  CHECK(security->refusals()->count(RefusalReason::kUser) == 2);
  CHECK(Call(server->addresses()[0], security).ok());
}

TEST_CASE("with a secret, each stream must carry it, on TCP and unix sockets alike") {
  testing::TestDirectory directory;
  REQUIRE(WriteNewSecret(directory / "a").ok());
  REQUIRE(WriteNewSecret(directory / "b").ok());
  const auto right = *Security::Create({.secret_file = directory / "a"});
  const auto wrong = *Security::Create({.secret_file = directory / "b"});
  const auto server = StartServer({"127.0.0.1:0", "unix:" + TestSocketPath("secret")}, right);
  uint64_t refused = 0;
  for (const std::string& address : server->addresses()) {
    for (const char* method : {kEchoMethod, kHealth}) {
      INFO(address << " " << method);
      CHECK(Call(address, right, method).ok());
      for (const auto& other : {wrong, Security::LoopbackOnly()}) {
        const absl::Status status = Call(address, other, method);
        CHECK(absl::IsUnauthenticated(status));
        CHECK_THAT(Message(status), Contains("--secret_file"));
        CHECK(right->refusals()->count(RefusalReason::kSecret) == ++refused);
      }
    }
  }
}

TEST_CASE("with a secret, sockets beside gRPC must carry it too") {
  testing::TestDirectory directory;
  REQUIRE(WriteNewSecret(directory / "a").ok());
  const auto security = *Security::Create({.secret_file = directory / "a"});
  StreamServer::Options options = ListenOn({"127.0.0.1:0"});
  options.security = security;
  std::atomic<int> taken = 0, with_name = 0;  // the server's thread counts
  options.take_socket = [&](UniqueFd connection) {
    if (SocketStream::TakeName(connection) == "a name") ++with_name;
    ++taken;
  };
  const auto server = StreamServer::Start(options, EchoMethods());
  REQUIRE(server.ok());
  const auto dial = [&](const std::string& token) {
    SocketLoop loop;
    Recorder recorder;
    SocketStream::Dial(&loop, (*server)->addresses()[0], {.name = "a name", .token = token},
                       &recorder);
    const auto deadline = TestDeadline();
    while (recorder.closed() == 0 && loop.PollOnce(deadline)) {
    }
    return recorder.status();
  };
  CHECK(absl::IsUnauthenticated(dial("")));
  CHECK(absl::IsUnauthenticated(dial(std::string(64, 'a'))));
  CHECK(taken == 0);
  CHECK(absl::IsUnavailable(dial(security->secret_token())));  // the test closes what it takes
  CHECK(taken == 1);
  CHECK(with_name == 1);
  CHECK(security->refusals()->count(RefusalReason::kSecret) == 2);
}

// More of them than may be in a handshake: each replica asks the others again and again.
TEST_CASE("sockets beside gRPC are in no handshake") {
  StreamServer::Options options = ListenOn({"0.0.0.0:0"});
  options.security = Security::Create(/*allow_insecure=*/true);
  std::atomic<size_t> taken = 0;  // the server's thread counts
  options.take_socket = [&](UniqueFd connection) {
    if (SocketStream::TakeName(connection) == "a name") ++taken;
  };
  const auto server = StreamServer::Start(options, EchoMethods());
  REQUIRE(server.ok());
  const std::string address = fmt::format("127.0.0.1:{}", (*server)->port());
  SocketLoop loop;
  const size_t dials = PendingPeers::kMostOfHost + 10;
  for (size_t i = 0; i < dials; ++i) {
    Recorder recorder;
    const auto stream = SocketStream::Dial(&loop, address, {.name = "a name"}, &recorder);
    const auto deadline = TestDeadline();
    while (recorder.closed() == 0 && loop.PollOnce(deadline)) {
    }
  }
  CHECK(taken == dials);
}

TEST_CASE("a moment without descriptors only delays connections") {
  const auto server = StartServer({"127.0.0.1:0"}, Security::LoopbackOnly());
  REQUIRE(Call(server->addresses()[0], Security::LoopbackOnly()).ok());
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few = {256, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  std::vector<UniqueFd> held;
  UniqueFd late;
  timeval wait = {.tv_sec = 0, .tv_usec = 300'000};
  char byte = 0;
  bool starved = false;
  // gRPC closes former connections later, so it may have a descriptor after all.
  for (int i = 0; i < 200 && !starved; ++i) {
    late.Close();
    for (UniqueFd fd(dup(0)); fd.ok(); fd = UniqueFd(dup(0))) held.push_back(std::move(fd));
    // One descriptor is left for this end, and none for the other.
    held.pop_back();
    late = ConnectTo("127.0.0.1", server->port());
    if (!late.ok()) continue;
    Send(late, kPreface + kSettings);
    setsockopt(late.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    starved = recv(late.get(), &byte, 1, 0) < 0;
  }
  CHECK(starved);
  held.clear();
  wait = {.tv_sec = TestLimit().count() / 1000, .tv_usec = 0};
  setsockopt(late.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  CHECK(recv(late.get(), &byte, 1, 0) == 1);
  CHECK(Call(server->addresses()[0], Security::LoopbackOnly()).ok());
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

// A server with certificates, and a client that asks for its health.
struct TlsPort {
  TlsPort() : server(StartServer({"127.0.0.1:0"}, security)) {}
  static std::shared_ptr<const Security> With(const std::string& directory) {
    auto security = Security::Create({.tls_dir = directory});
    REQUIRE(security.ok());
    return *security;
  }
  // How long a new client waits for an answer.
  std::chrono::milliseconds Health() const {
    const auto begin = CompletionLoop::Clock::now();
    const absl::Status status = Call(server->addresses()[0], client, kHealth);
    INFO(status);
    CHECK(status.ok());
    return std::chrono::duration_cast<std::chrono::milliseconds>(CompletionLoop::Clock::now() -
                                                                 begin);
  }
  UniqueFd Connect() const { return ConnectTo("127.0.0.1", server->port()); }
  uint64_t refused(RefusalReason reason) const { return security->refusals()->count(reason); }

  testing::TlsTestFiles files;
  std::shared_ptr<const Security> security = With(files.Write("ps", "cohort://lab/ps/0"));
  std::shared_ptr<const Security> client = With(files.Write("w", "cohort://lab/worker/0"));
  std::unique_ptr<StreamServer> server;
};

TEST_CASE("handshakes that do not continue keep nobody waiting") {
  TlsPort port;
  const auto limit = testing::Scaled(std::chrono::milliseconds(1000));
  std::vector<UniqueFd> begun;
  for (int i = 0; i < 300; ++i) {
    begun.push_back(port.Connect());
    Send(begun.back(), i % 2 == 0 ? std::string("\x16") : std::string("\x16\x03\x01\x02\x00x", 6));
  }
  CHECK(port.Health() < limit);
  // A peer that ends in the middle of a record.
  UniqueFd half = port.Connect();
  Send(half, std::string("\x16\x03\x01\x02\x00x", 6));
  shutdown(half.get(), SHUT_WR);
  CHECK(ReadAll(half).empty());
  // A record that no TLS has.
  UniqueFd garbage = port.Connect();
  Send(garbage, std::string("\x16\x03\x01\xff\xff", 5));
  CHECK(ReadAll(garbage).empty());
  CHECK(port.refused(RefusalReason::kPlaintext) == 1);
  CHECK(port.Health() < limit);
}

TEST_CASE("a TLS port answers a plaintext client with what to do, without a parser") {
  TlsPort port;
  const UniqueFd connection = port.Connect();
  Send(connection, kPreface + kSettings);
  const std::string answer = ReadAll(connection);
  CHECK(answer.substr(0, 9) == kSettings);
  CHECK_THAT(answer, Contains("takes only TLS") && Contains("--tls_dir"));
  CHECK(port.refused(RefusalReason::kPlaintext) == 1);
}

// Work per header grows in gRPC 1.51 with what it has buffered.
TEST_CASE("a flood of CONTINUATION frames on a TLS port costs nothing") {
  TlsPort port;
  std::atomic<bool> done = false;
  std::thread flood([&] {
    const std::string headers("\0\0\0\1\0\0\0\0\1", 9);  // HEADERS without END_HEADERS
    std::string continuation("\0\x40\0\x9\0\0\0\0\1", 9);
    continuation.append(16384, '\0');
    while (!done) {
      const UniqueFd connection = port.Connect();
      Send(connection, kPreface + kSettings + headers);
      for (int i = 0; i < 1000 && !done; ++i) {
        if (send(connection.get(), continuation.data(), continuation.size(), MSG_NOSIGNAL) < 0) {
          break;
        }
      }
    }
  });
  for (int i = 0; i < 5; ++i) {
    CHECK(port.Health() < testing::Scaled(std::chrono::milliseconds(1000)));
  }
  done = true;
  flood.join();
  CHECK(port.refused(RefusalReason::kPlaintext) > 0);
}

}  // namespace
}  // namespace cohort
