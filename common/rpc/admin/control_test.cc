// The control socket: an admin server on a unix socket, and its client.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <future>

#include "common/base/status.h"
#include "common/base/unique_fd.h"
#include "common/rpc/admin/admin_client.h"
#include "common/rpc/admin/admin_server.h"
#include "common/rpc/admin/control_socket.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::TestDirectory;

absl::StatusOr<std::string> Echo(const std::string& command, const std::string& request) {
  return R"({")" + command + R"(":)" + request + "}";
}

std::unique_ptr<AdminServer> StartServer(AdminServer::Options options) {
  auto server = AdminServer::Start(std::move(options));
  INFO(server.status());
  REQUIRE(server.ok());
  return *std::move(server);
}

mode_t ModeOfFile(const std::string& path) {
  struct stat info = {};
  REQUIRE(lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

// A unix socket, bound to the path or connected to it.
UniqueFd SocketAt(const std::string& path, decltype(&connect) attach) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(name.sun_path));
  std::memcpy(name.sun_path, path.c_str(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(attach(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
  return fd;
}

// Sends bytes, and returns what comes back until the other end closes.
std::string Raw(const std::string& path, std::string_view bytes) {
  const UniqueFd fd = SocketAt(path, &connect);
  REQUIRE(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t n; (n = recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    reply.append(buffer, static_cast<size_t>(n));
  }
  return reply;
}

TEST_CASE("a command on the control socket is answered, and only the owner can reach it") {
  const TestDirectory run;
  const std::string path = run / std::string(kControlSocket);
  {
    const auto server = StartServer({.control_socket = path, .control = Echo});
    REQUIRE(server->port() == 0);
    REQUIRE(ModeOfFile(run / "control") == 0700);
    REQUIRE(ModeOfFile(path) == 0600);
    REQUIRE(FindControlSocket(run.path()).value() == path);
    REQUIRE(FindControlSocket(path).value() == path);
    REQUIRE(CallControl(path, "status", R"({"n":1})").value() == R"({"status":{"n":1}})");
    REQUIRE(CallControl(path, "stop", R"({"n":2})").value() == R"({"stop":{"n":2}})");
    REQUIRE(Contains(Raw(path, "GET /healthz HTTP/1.0\r\n\r\n"), "200 OK"));
    REQUIRE(Contains(Raw(path, "GET /control/stop HTTP/1.0\r\n\r\n"), "404"));
    REQUIRE(Contains(Raw(path, "POST /healthz HTTP/1.0\r\n\r\n"), "405"));
  }
  REQUIRE(std::filesystem::is_empty(run / "control"));
  const auto gone = FindControlSocket(run.path());
  REQUIRE(absl::IsNotFound(gone.status()));
  REQUIRE(Contains(std::string(gone.status().message()), "Give the run directory"));
  REQUIRE(absl::IsNotFound(CallControl(path, "status", "").status()));
}

TEST_CASE("the control socket of cohort local is below checkpoints/") {
  const TestDirectory run;
  std::filesystem::create_directory(run / "checkpoints");
  const std::string path = run / "checkpoints/control/chief.sock";
  const auto server = StartServer({.control_socket = path, .control = Echo});
  REQUIRE(FindControlSocket(run.path()).value() == path);
}

TEST_CASE("errors of a command keep their code and message") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  const auto server =
      StartServer({.control_socket = path,
                   .control = [](const std::string& command,
                                 const std::string& request) -> absl::StatusOr<std::string> {
                     return NotFound("no {}\n\"{}\"", command, request);
                   }});
  const auto failed = CallControl(path, "this", "quoted");
  REQUIRE(absl::IsNotFound(failed.status()));
  REQUIRE(failed.status().message() == "no this\n\"quoted\"");
}

TEST_CASE("an answer that no chief writes is refused") {
  const TestDirectory run;
  const std::string path = run / "chief.sock";
  const UniqueFd listener = SocketAt(path, &bind);
  REQUIRE(listen(listener.get(), 1) == 0);
  for (const std::string body :
       {"", "{}", "[]", R"({"code": 0, "message": ""})", R"({"code": 5})"}) {
    auto call = std::async(std::launch::async, [&] { return CallControl(path, "status", ""); });
    const UniqueFd peer(accept(listener.get(), nullptr, nullptr));
    char request[1024];
    REQUIRE(recv(peer.get(), request, sizeof(request), 0) > 0);
    const std::string reply =
        fmt::format("HTTP/1.0 400 Bad\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
    REQUIRE(send(peer.get(), reply.data(), reply.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(reply.size()));
    REQUIRE(absl::IsDataLoss(call.get().status()));
  }
}

TEST_CASE("a chief that does not answer, or ends before, is an error") {
  const TestDirectory run;
  const std::string path = run / "chief.sock";
  const UniqueFd listener = SocketAt(path, &bind);
  REQUIRE(listen(listener.get(), 1) == 0);
  const auto silent = CallControl(path, "status", "", std::chrono::milliseconds(50)).status();
  REQUIRE(absl::IsUnavailable(silent));
  REQUIRE(Contains(std::string(silent.message()), "it does not answer"));
  auto call = std::async(std::launch::async, [&] { return CallControl(path, "status", ""); });
  UniqueFd(accept(listener.get(), nullptr, nullptr)).Close();  // that of the first call
  {
    const UniqueFd peer(accept(listener.get(), nullptr, nullptr));
    char request[1024];
    REQUIRE(recv(peer.get(), request, sizeof(request), 0) > 0);
  }
  const auto ended = call.get().status();
  REQUIRE(absl::IsUnavailable(ended));
  REQUIRE(Contains(std::string(ended.message()), "the chief ended before it answered"));
}

TEST_CASE("another user is refused on the control socket") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  std::atomic<bool> called{false};
  const auto server = StartServer({.control_socket = path,
                                   .status_json =
                                       [&] {
                                         called = true;
                                         return std::string("{}");
                                       },
                                   .control =
                                       [&](const std::string& command, const std::string& request) {
                                         called = true;
                                         return Echo(command, request);
                                       },
                                   .user = geteuid() + 1});
  const auto refused = CallControl(path, "status", "{}");
  REQUIRE(absl::IsPermissionDenied(refused.status()));
  REQUIRE(Contains(std::string(refused.status().message()), "this job belongs to the user"));
  // Its body is not waited for, and no page is read.
  REQUIRE(Contains(Raw(path, "POST /control/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"),
                   "this job belongs to the user"));
  REQUIRE(Contains(Raw(path, "GET /status.json HTTP/1.0\r\n\r\n"), "this job belongs to the user"));
  REQUIRE_FALSE(called);
}

TEST_CASE("a port takes no command") {
  std::atomic<bool> called{false};
  const auto server =
      StartServer({.address = "127.0.0.1:0",
                   .control = [&](const std::string& command, const std::string& request) {
                     called = true;
                     return Echo(command, request);
                   }});
  for (const std::string method : {"GET", "POST"}) {
    const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port = htons(static_cast<uint16_t>(server->port()));
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd.get(), reinterpret_cast<sockaddr*>(&name), sizeof(name)) == 0);
    const std::string request =
        method + " /control/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    REQUIRE(send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(request.size()));
    std::string reply(4096, '\0');
    REQUIRE(recv(fd.get(), reply.data(), reply.size(), 0) > 0);
    REQUIRE(Contains(reply, method == "GET" ? " 404 " : " 405 "));
  }
  REQUIRE_FALSE(called);
}

TEST_CASE("a request to the control socket has a limit") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  const auto server = StartServer({.control_socket = path, .control = Echo});
  const std::string fits((size_t{1} << 20), '1');
  REQUIRE(CallControl(path, "status", fits).ok());
  const absl::Status refused = CallControl(path, "status", fits + "1").status();
  REQUIRE(absl::IsInvalidArgument(refused));
  REQUIRE(refused.message() == "a message of more than 1048576 bytes");
}

TEST_CASE("silent clients and long commands do not block the control socket") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  const auto server =
      StartServer({.control_socket = path,
                   .control =
                       [released](const std::string& command, const std::string& request) {
                         if (command == "slow") released.wait();
                         return Echo(command, request);
                       },
                   .request_timeout = seconds(1)});
  std::vector<std::future<absl::StatusOr<std::string>>> slow(6);
  for (auto& call : slow) {
    call = std::async(std::launch::async, [&] { return CallControl(path, "slow", "1"); });
  }
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(SocketAt(path, &connect));
  const UniqueFd half = SocketAt(path, &connect);
  REQUIRE(send(half.get(), "P", 1, MSG_NOSIGNAL) == 1);
  REQUIRE(CallControl(path, "quick", "1").value() == R"({"quick":1})");
  char byte = 0;
  for (const UniqueFd& fd : silent) REQUIRE(recv(fd.get(), &byte, 1, 0) <= 0);  // each is closed
  std::this_thread::sleep_for(seconds(1));  // longer than the limit of a connection that is silent
  release.set_value();
  for (auto& call : slow) REQUIRE(call.get().value() == R"({"slow":1})");
}

TEST_CASE("a control socket that ends waits for running commands, and for no silent client") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  std::promise<void> entered;
  std::promise<void> release;
  auto server = StartServer({.control_socket = path,
                             .control =
                                 [&](const std::string& command, const std::string& request) {
                                   entered.set_value();
                                   release.get_future().wait();
                                   return Echo(command, request);
                                 },
                             .request_timeout = std::chrono::hours(1)});
  auto slow = std::async(std::launch::async, [&] { return CallControl(path, "slow", "1"); });
  entered.get_future().wait();
  const UniqueFd silent = SocketAt(path, &connect);
  auto ended = std::async(std::launch::async, [&] { server.reset(); });
  release.set_value();
  ended.get();
  REQUIRE(slow.get().value() == R"({"slow":1})");
}

TEST_CASE("a stale control socket is replaced, and a newer one is not removed") {
  const TestDirectory run;
  std::filesystem::create_directory(run / "control");
  std::filesystem::permissions(run / "control", std::filesystem::perms::all);
  const std::string path = run / "control/chief.sock";
  SocketAt(path, &bind);  // nobody listens on it, as after the death of a chief
  const absl::Status stale = CallControl(path, "status", "1").status();
  REQUIRE(absl::IsUnavailable(stale));
  REQUIRE(Contains(std::string(stale.message()), "no chief listens"));
  REQUIRE(Contains(std::string(stale.message()), "Connection refused"));
  auto first = StartServer({.control_socket = path, .control = Echo});
  REQUIRE(ModeOfFile(run / "control") == 0700);
  REQUIRE(CallControl(path, "status", "1").ok());
  // A chief that takes over.
  const auto second =
      StartServer({.control_socket = path, .control = [](const std::string&, const std::string&) {
                     return absl::StatusOr<std::string>("{}");
                   }});
  first.reset();
  REQUIRE(CallControl(path, "status", "1").value() == "{}");
}

TEST_CASE("a control socket may have a long path, but not in another's directory") {
  const TestDirectory run;
  const std::string deep = run / std::string(200, 'd');
  std::filesystem::create_directory(deep);
  const std::string path = deep + "/control/chief.sock";
  const auto server = StartServer({.control_socket = path, .control = Echo});
  REQUIRE(CallControl(FindControlSocket(deep).value(), "status", "1").ok());

  std::filesystem::create_directory_symlink(deep, run / "control");
  const auto link = AdminServer::Start({.control_socket = run / "control/chief.sock"});
  REQUIRE(absl::IsFailedPrecondition(link.status()));
  REQUIRE_FALSE(AdminServer::Start({.control_socket = run / "none/control/c"}).ok());
}

}  // namespace
}  // namespace cohort
