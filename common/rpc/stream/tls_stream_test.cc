#include <arpa/inet.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/rpc_test_process.h"
#include "common/rpc/stream/rpc_test_util.h"
#include "common/testing/status_test_util.h"
#include "common/tls/tls_test_files.h"

namespace cohort {
namespace {

using Catch::Matchers::Contains;
using testing::Message;
using testing::TlsTestFiles;

constexpr const char* kAllowed = kWorkersMethod;

std::shared_ptr<const Security> WithFiles(const std::string& directory) {
  auto security = Security::Create({.tls_dir = directory});
  REQUIRE(security.ok());
  return *security;
}

// The server of ps:0, which records who opened its last stream.
struct TlsServer {
  explicit TlsServer(std::vector<std::string> listen = {"127.0.0.1:0"}, bool tls = true)
      : security(tls ? WithFiles(files.Write("ps", "cohort://lab/ps/0"))
                     : Security::LoopbackOnly()) {
    StreamServer::Options options = ListenOn(std::move(listen));
    options.security = security;
    auto started = StreamServer::Start(
        options, {{kAllowed, [this](std::shared_ptr<Stream> stream, CompletionLoop*) {
                     MutexLock lock(&mu);
                     peer = stream->peer();
                     claims_worker_0 = stream->CheckClaim({Role::kWorker, 0});
                     claims_worker_1 = stream->CheckClaim({Role::kWorker, 1});
                     return std::make_unique<EchoHandler>(std::move(stream), nullptr);
                   }}});
    REQUIRE(started.ok());
    server = *std::move(started);
  }
  const std::string& address() const { return server->addresses()[0]; }
  uint64_t refused(RefusalReason reason) const { return security->refusals()->count(reason); }

  TlsTestFiles files;
  std::shared_ptr<const Security> security;
  Mutex mu;
  StreamPeer peer ABSL_GUARDED_BY(mu);
  absl::Status claims_worker_0 ABSL_GUARDED_BY(mu), claims_worker_1 ABSL_GUARDED_BY(mu);
  std::unique_ptr<StreamServer> server;
};

// Streams of one client, one after another.
struct TlsClient {
  TlsClient(const std::string& address, std::shared_ptr<const Security> security,
            std::optional<Task> task = Task{Role::kPs, 0}) {
    auto created = StreamClient::Create(address, {.security = std::move(security), .task = task});
    REQUIRE(created.ok());
    client = *std::move(created);
  }
  // Sends a frame and returns OK if it came back, or the status that the stream ended with.
  absl::Status Echo(const char* method = kAllowed, const std::string& text = "hello") {
    Recorder recorder;
    CompletionLoop loop;
    const auto stream = client->Open(method, &recorder, &loop, {.wait_for_ready = false});
    stream->Send(FrameOf(text));
    loop.RunUntil([&] { return recorder.frame_count() > 0 || recorder.closed() > 0; },
                  TestDeadline());
    if (recorder.frame_count() > 0) {
      return recorder.frames()[0] == text ? absl::OkStatus() : absl::DataLossError("other bytes");
    }
    return recorder.closed() > 0 ? recorder.status() : absl::InternalError("no answer");
  }

  std::unique_ptr<StreamClient> client;
};

TEST_CASE("mutual TLS joins a worker and a server, and the server knows who it is") {
  TlsServer server;
  TlsClient client(server.address(), WithFiles(server.files.Write("w", "cohort://lab/worker/1")));
  REQUIRE(client.Echo() == absl::OkStatus());
  MutexLock lock(&server.mu);
  REQUIRE(server.peer.identity.has_value());
  CHECK(server.peer.identity->ToString() == "cohort://lab/worker/1");
  CHECK_THAT(server.peer.address, Contains("127.0.0.1:"));
  CHECK(server.claims_worker_1.ok());
  CHECK_FALSE(server.claims_worker_0.ok());
  CHECK(server.refused(RefusalReason::kClaim) == 1);
}

// Passes one connection on to a server, and looks at the records of both directions.
class RecordingProxy {
 public:
  explicit RecordingProxy(int port) : port_(port), listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof(address);
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(listener_.get(), name, size) == 0);
    REQUIRE(listen(listener_.get(), 1) == 0);
    REQUIRE(getsockname(listener_.get(), name, &size) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this] { Run(); });
  }
  ~RecordingProxy() { Finish(); }
  const std::string& address() const { return address_; }
  // Returns, when the connection has ended, the longest record that either end has sent, without
  // its head.
  size_t Finish() {
    shutdown(listener_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    return longest_;
  }

 private:
  struct Direction {
    std::string head = {};
    size_t left = 0;  // until the record ends
  };

  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

  void Run() {
    const UniqueFd client(accept(listener_.get(), nullptr, nullptr));
    const UniqueFd server(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in address = Loopback(port_);
    if (connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return;
    }
    std::array<Direction, 2> directions;
    const std::array<int, 2> ends = {client.get(), server.get()};
    while (true) {
      std::array<pollfd, 2> polled = {{{ends[0], POLLIN, 0}, {ends[1], POLLIN, 0}}};
      poll(polled.data(), polled.size(), -1);
      for (size_t i = 0; i < 2; ++i) {
        if (polled[i].revents == 0) continue;
        std::array<char, 64 << 10> bytes;
        const ssize_t got = recv(ends[i], bytes.data(), bytes.size(), 0);
        if (got <= 0) return;
        const std::string_view text(bytes.data(), static_cast<size_t>(got));
        Look(text, &directions[i]);
        for (size_t sent = 0; sent < text.size();) {
          const ssize_t now = send(ends[1 - i], &text[sent], text.size() - sent, MSG_NOSIGNAL);
          if (now <= 0) return;
          sent += static_cast<size_t>(now);
        }
      }
    }
  }

  void Look(std::string_view text, Direction* at) {
    while (!text.empty()) {
      const size_t body = std::min(at->left, text.size());
      at->left -= body;
      text.remove_prefix(body);
      if (at->left > 0 || text.empty()) return;
      at->head += text[0];
      text.remove_prefix(1);
      if (at->head.size() < 5) continue;
      at->left = static_cast<size_t>(static_cast<uint8_t>(at->head[3])) << 8 |
                 static_cast<uint8_t>(at->head[4]);
      longest_ = std::max(longest_, at->left);
      at->head.clear();
    }
  }

  const int port_;
  const UniqueFd listener_;
  std::string address_;
  size_t longest_ = 0;  // belongs to the thread
  std::thread thread_;
};

TEST_CASE("large frames travel in the longest records of TLS, which only our code makes") {
  TlsServer server;
  RecordingProxy proxy(server.server->port());
  {
    TlsClient client(proxy.address(), WithFiles(server.files.Write("w", "cohort://lab/worker/1")));
    Recorder recorder;
    CompletionLoop loop;
    const auto stream = client.client->Open(kAllowed, &recorder, &loop, {.wait_for_ready = false});
    std::vector<std::string> sent;
    for (const size_t bytes : {0, 1, 1000, 16384, 100000, 5000000, 3}) {
      sent.emplace_back(bytes, static_cast<char>('a' + sent.size()));
      stream->Send(FrameOf(sent.back()));
    }
    loop.RunUntil([&] { return recorder.frame_count() == sent.size() || recorder.closed() > 0; },
                  TestDeadline());
    CHECK(recorder.status() == absl::OkStatus());
    CHECK(recorder.frames() == sent);
  }
  server.server->Shutdown(absl::OkStatus(), std::chrono::milliseconds(0));
  // gRPC's own protector leaves 100 bytes of each record unused.
  CHECK((proxy.Finish() == (16 << 10) + 1 + 16) == TuningOfGrpc().tls_override);
}

TEST_CASE("TLS of gRPC alone, at either end, understands ours") {
  TlsServer server;
  {
    TestPeer client("dial", server.address(), server.files.Write("w", "cohort://lab/worker/1"));
    CHECK(client.ReadLine() == "open");
  }
  TestPeer peer("serve", "127.0.0.1:0", server.files.Write("peer", "cohort://lab/ps/0"));
  TlsClient client("127.0.0.1:" + peer.ReadLine(),
                   WithFiles(server.files.Write("w", "cohort://lab/worker/1")));
  CHECK(client.Echo() == absl::OkStatus());
  CHECK(client.Echo(kAllowed, std::string(3 << 20, 'x')) == absl::OkStatus());
}

TEST_CASE("a server refuses certificates, says why, and counts") {
  TlsServer server;
  const auto expect = [&](const std::string& directory, RefusalReason reason, const char* method,
                          const std::string& message) {
    const uint64_t before = server.refused(reason);
    const absl::Status status = TlsClient(server.address(), WithFiles(directory)).Echo(method);
    INFO(status);
    // Without a good certificate there is no stream that could be refused with a message.
    CHECK(absl::IsPermissionDenied(status) == (reason == RefusalReason::kMethod));
    CHECK_THAT(Message(status), Contains(message));
    CHECK(server.refused(reason) == before + 1);
  };
  const char* const refused = "closed the connection in the handshake";
  const TlsTestFiles other;
  // The client has the right CA, so it accepts the server.
  expect(server.files.WriteAs("a", other.Issue("cohort://lab/worker/0"),
                              server.files.ca().certificate),
         RefusalReason::kUntrusted, kAllowed, refused);
  expect(server.files.Write("b", "cohort://lab/worker/0", -1), RefusalReason::kExpired, kAllowed,
         refused);
  expect(server.files.Write("c", "cohort://lab/evaluator"), RefusalReason::kMethod, kAllowed,
         "may not call");
  expect(server.files.Write("d", "cohort://lab/worker/0"), RefusalReason::kMethod,
         "/cohort.v1.ParameterServer/Control", "may not call");
}

TEST_CASE("a client without a certificate is refused in the handshake") {
  namespace tls = grpc::experimental;
  TlsServer server;
  tls::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<tls::StaticDataCertificateProvider>(server.files.ca().certificate));
  options.watch_root_certs();
  options.set_certificate_verifier(std::make_shared<tls::NoOpCertificateVerifier>());
  options.set_check_call_host(false);
  const auto channel = grpc::CreateChannel(server.address(), tls::TlsCredentials(options));
  grpc::ClientContext context;
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, kAllowed, &queue);
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(&context);
  REQUIRE(queue.Next(&tag, &ok));
  call->Finish(&status, &status);
  REQUIRE(queue.Next(&tag, &ok));
  CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
  CHECK(server.refused(RefusalReason::kNoCertificate) == 1);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

TEST_CASE("plaintext and TLS do not mix, and both ends learn it") {
  {
    TlsServer server;
    const absl::Status status = TlsClient(server.address(), Security::LoopbackOnly()).Echo();
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(Message(status), Contains("only TLS") && Contains("--tls_dir"));
    CHECK(server.refused(RefusalReason::kPlaintext) == 1);
  }
  TlsServer plain({"127.0.0.1:0"}, /*tls=*/false);
  TlsClient client(plain.address(), WithFiles(plain.files.Write("w", "cohort://lab/worker/0")));
  const absl::Status status = client.Echo();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(Message(status), Contains("does not speak TLS") && Contains("--tls_dir"));
}

TEST_CASE("bytes that are neither TLS nor HTTP/2 end the connection and are counted") {
  TlsServer server;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server.server->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const UniqueFd silent(socket(AF_INET, SOCK_STREAM, 0));  // never sends, and disturbs nobody
  REQUIRE(connect(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  const UniqueFd other(socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(connect(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  REQUIRE(send(other.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL) == 18);
  char byte = 0;
  CHECK(recv(other.get(), &byte, 1, 0) <= 0);
  CHECK(server.refused(RefusalReason::kPlaintext) == 1);
  TlsClient client(server.address(), WithFiles(server.files.Write("w", "cohort://lab/worker/1")));
  CHECK(client.Echo().ok());
}

TEST_CASE("a client refuses a server of another CA, or another task, and says why") {
  TlsServer server;
  const TlsTestFiles other;
  const auto stranger = WithFiles(other.Write("w", "cohort://lab/worker/0"));
  absl::Status status = TlsClient(server.address(), stranger).Echo();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(Message(status), Contains("not signed by the CA"));
  CHECK(stranger->refusals()->count(RefusalReason::kUntrusted) >= 1);

  const auto worker = WithFiles(server.files.Write("w", "cohort://lab/worker/0"));
  status = TlsClient(server.address(), worker, Task{Role::kPs, 1}).Echo();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(Message(status), Contains("was dialed for ps:1") && Contains("cohort://lab/ps/0"));
  CHECK(worker->refusals()->count(RefusalReason::kIdentity) >= 1);
}

TEST_CASE("new streams use changed certificates, and open streams stay") {
  TlsServer server;
  const std::string directory = server.files.Write("w", "cohort://lab/worker/1");
  TlsClient client(server.address(), WithFiles(directory));
  Recorder recorder;
  CompletionLoop loop;
  const auto stream = client.client->Open(kAllowed, &recorder, &loop, {.wait_for_ready = false});
  const auto echo = [&](size_t frames) {
    stream->Send(FrameOf("x"));
    loop.RunUntil([&] { return recorder.frame_count() == frames || recorder.closed() > 0; },
                  TestDeadline());
    return recorder.frame_count() == frames;
  };
  REQUIRE(echo(1));

  // The server trusts both CAs first, then only the new one, as in docs/cluster.md.
  const TlsTestFiles next;
  const std::string both = server.files.ca().certificate + next.ca().certificate;
  server.files.WriteAs("ps", server.files.Issue("cohort://lab/ps/0"), both);
  server.files.WriteAs("w", next.Issue("cohort://lab/worker/1"), both);
  CHECK(client.Echo() == absl::OkStatus());
  server.files.WriteAs("ps", next.Issue("cohort://lab/ps/0"), next.ca().certificate);
  server.files.WriteAs("w", next.Issue("cohort://lab/worker/1"), next.ca().certificate);
  // gRPC reads the server's files within a second. Until then the client refuses the old
  // certificate.
  absl::Status status;
  const auto deadline = TestDeadline();
  do {
    status = client.Echo();
  } while (!status.ok() && CompletionLoop::Clock::now() < deadline);
  CHECK(status == absl::OkStatus());
  server.files.Write("old", "cohort://lab/worker/0");
  server.files.WriteAs("old", server.files.Issue("cohort://lab/worker/0"), both);
  status =
      TlsClient(server.address(), WithFiles(server.files.WriteAs(
                                      "old", server.files.Issue("cohort://lab/worker/0"), both)))
          .Echo();
  CHECK(absl::IsUnavailable(status));
  CHECK(echo(2));  // the first stream
}

TEST_CASE("a unix socket stays plaintext, and its peer is the same user") {
  const std::string path = TestSocketPath("tls");
  TlsServer server({"127.0.0.1:0", "unix:" + path});
  const auto worker = WithFiles(server.files.Write("w", "cohort://lab/worker/1"));
  CHECK(TlsClient("unix:" + path, worker).Echo() == absl::OkStatus());
  CHECK(TlsClient("unix:" + path, Security::LoopbackOnly()).Echo() == absl::OkStatus());
  {
    MutexLock lock(&server.mu);
    CHECK(server.peer.uses_unix_socket());
    CHECK_FALSE(server.peer.identity.has_value());
    CHECK(server.claims_worker_0.ok());
  }
  server.server->Shutdown(absl::OkStatus(), std::chrono::milliseconds(0));
  CHECK(access(path.c_str(), F_OK) != 0);
}

// Returns true if a process of another user gets as far as an open connection.
bool AnotherUserStays(const std::string& path) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.c_str(), path.size());
    char byte = 0;
    const int fd = setuid(65534) == 0 ? socket(AF_UNIX, SOCK_STREAM, 0) : -1;
    if (connect(fd, reinterpret_cast<sockaddr*>(&name), sizeof(name)) != 0) _exit(2);
    // gRPC's server speaks first; a refused connection ends.
    _exit(recv(fd, &byte, 1, 0) > 0 ? 1 : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) != 2);
  return WEXITSTATUS(status) == 1;
}

TEST_CASE("a unix socket refuses another user", "[root]") {
  if (geteuid() != 0) {
    WARN("only root can become another user");
    return;
  }
  const std::string path = TestSocketPath("user");
  TlsServer server({"unix:" + path}, /*tls=*/false);
  REQUIRE(chmod(path.c_str(), 0777) == 0);
  const uint64_t before = server.refused(RefusalReason::kUser);
  CHECK_FALSE(AnotherUserStays(path));
  CHECK(server.refused(RefusalReason::kUser) == before + 1);
}

}  // namespace
}  // namespace cohort
