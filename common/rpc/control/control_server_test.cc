#include "common/rpc/control/control_server.h"

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
#include "common/rpc/control/control_client.h"
#include "common/rpc/control/control_message.h"
#include "common/rpc/control/control_socket.h"
#include "common/testing/test_directory.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::TestDirectory;

constexpr TimePoint kNever = TimePoint::max();

absl::StatusOr<std::string> Echo(const std::string& request) {
  return R"({"heard": )" + request + "}";
}

std::unique_ptr<ControlServer> StartServer(ControlServer::Options options) {
  auto server = ControlServer::Start(std::move(options));
  INFO(server.status());
  REQUIRE(server.ok());
  return *std::move(server);
}

mode_t ModeOfFile(const std::string& path) {
  struct stat info = {};
  REQUIRE(lstat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

// A socket file that nobody listens on, as a killed chief leaves it.
void LeaveSocket(const std::string& path) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  REQUIRE(path.size() < sizeof(name.sun_path));
  std::memcpy(name.sun_path, path.c_str(), path.size());
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
}

TEST_CASE("a request on the control socket is answered, and only the owner can reach it") {
  const TestDirectory run;
  const std::string path = run / std::string(kControlSocket);
  {
    const auto server = StartServer({.path = path, .handler = Echo});
    REQUIRE(ModeOfFile(run / "control") == 0700);
    REQUIRE(ModeOfFile(path) == 0600);
    REQUIRE(FindControlSocket(run.path()).value() == path);
    REQUIRE(FindControlSocket(path).value() == path);
    REQUIRE(CallControl(path, R"({"n":1})").value() == R"({"heard":{"n":1}})");
    REQUIRE(CallControl(path, R"({"n":2})").value() == R"({"heard":{"n":2}})");
  }
  REQUIRE(std::filesystem::is_empty(run / "control"));
  const auto gone = FindControlSocket(run.path());
  REQUIRE(absl::IsNotFound(gone.status()));
  REQUIRE(Contains(std::string(gone.status().message()), "Give the run directory"));
}

TEST_CASE("the control socket of cohort local is below checkpoints/") {
  const TestDirectory run;
  std::filesystem::create_directory(run / "checkpoints");
  const std::string path = run / "checkpoints/control/chief.sock";
  const auto server = StartServer({.path = path, .handler = Echo});
  REQUIRE(FindControlSocket(run.path()).value() == path);
}

TEST_CASE("errors of a control request keep their code and message") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  const auto server = StartServer({.path = path, .handler = [](const std::string& request) {
                                     return request == "{}"
                                                ? absl::StatusOr<std::string>("[1]")
                                                : NotFound("no {}\n\"quoted\"", request);
                                   }});
  const auto failed = CallControl(path, "this");
  REQUIRE(absl::IsNotFound(failed.status()));
  REQUIRE(failed.status().message() == "no this\n\"quoted\"");
  REQUIRE(absl::IsInternal(CallControl(path, "{}").status()));
  for (const char* wrong : {"", "{}", "[]", R"({"result": 1})", R"({"error": {"code": 0}})"}) {
    REQUIRE(absl::IsDataLoss(DecodeControlAnswer(wrong).status()));
  }
}

TEST_CASE("another user is refused by the control server") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  std::atomic<bool> called{false};
  const auto server = StartServer({.path = path,
                                   .handler =
                                       [&](const std::string& request) {
                                         called = true;
                                         return Echo(request);
                                       },
                                   .user = geteuid() + 1});
  const auto refused = CallControl(path, "{}");
  REQUIRE(absl::IsPermissionDenied(refused.status()));
  REQUIRE_FALSE(called);
}

TEST_CASE("silent clients and long requests do not block the control server") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  const auto server = StartServer({.path = path,
                                   .handler =
                                       [released](const std::string& request) {
                                         if (request == R"("slow")") released.wait();
                                         return Echo(request);
                                       },
                                   .request_timeout = std::chrono::milliseconds(300)});
  auto slow = std::async(std::launch::async, [&] { return CallControl(path, R"("slow")"); });
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(*ConnectToControlSocket(path));
  const UniqueFd half = *ConnectToControlSocket(path);
  REQUIRE(send(half.get(), "{", 1, MSG_NOSIGNAL) == 1);
  REQUIRE(CallControl(path, "1").value() == R"({"heard":1})");
  const auto told = DecodeControlAnswer(ReadControlLine(silent[0].get(), kNever, -1).value());
  REQUIRE(absl::IsDeadlineExceeded(told.status()));
  release.set_value();
  REQUIRE(slow.get().value() == R"({"heard":"slow"})");
}

TEST_CASE("a control server that ends waits for running requests, and for no silent client") {
  const TestDirectory run;
  const std::string path = run / "control/chief.sock";
  std::promise<void> entered;
  std::promise<void> release;
  auto server = StartServer({.path = path,
                             .handler =
                                 [&](const std::string& request) {
                                   entered.set_value();
                                   release.get_future().wait();
                                   return Echo(request);
                                 },
                             .request_timeout = std::chrono::hours(1)});
  auto slow = std::async(std::launch::async, [&] { return CallControl(path, "1"); });
  entered.get_future().wait();
  const UniqueFd silent = *ConnectToControlSocket(path);
  auto ended = std::async(std::launch::async, [&] { server.reset(); });
  release.set_value();
  ended.get();
  REQUIRE(slow.get().value() == R"({"heard":1})");
}

TEST_CASE("a stale control socket is replaced, and a newer one is not removed") {
  const TestDirectory run;
  std::filesystem::create_directory(run / "control");
  std::filesystem::permissions(run / "control", std::filesystem::perms::all);
  const std::string path = run / "control/chief.sock";
  LeaveSocket(path);
  REQUIRE(absl::IsUnavailable(CallControl(path, "1").status()));
  auto first = StartServer({.path = path, .handler = Echo});
  REQUIRE(ModeOfFile(run / "control") == 0700);
  REQUIRE(CallControl(path, "1").ok());
  // A chief that takes over.
  const auto second = StartServer({.path = path, .handler = [](const std::string&) {
                                     return absl::StatusOr<std::string>("{}");
                                   }});
  first.reset();
  REQUIRE(CallControl(path, "1").value() == "{}");
}

TEST_CASE("a control socket may have a long path, but not in another's directory") {
  const TestDirectory run;
  const std::string deep = run / std::string(200, 'd');
  std::filesystem::create_directory(deep);
  const std::string path = deep + "/control/chief.sock";
  const auto server = StartServer({.path = path, .handler = Echo});
  REQUIRE(CallControl(FindControlSocket(deep).value(), "1").ok());

  std::filesystem::create_directory_symlink(deep, run / "control");
  const auto link = ControlServer::Start({.path = run / "control/chief.sock", .handler = Echo});
  REQUIRE(absl::IsFailedPrecondition(link.status()));
  REQUIRE_FALSE(ControlServer::Start({.path = run / "none/control/c", .handler = Echo}).ok());
}

}  // namespace
}  // namespace cohort
