#include "common/rpc/admin/admin_client.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <future>
#include <string>

#include "common/base/unique_fd.h"
#include "common/rpc/admin/admin_server.h"

namespace cohort {
namespace {

using Catch::Contains;
using std::chrono::seconds;

// A socket on loopback that listens.
struct Listener {
  Listener() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(name);
    REQUIRE(bind(fd.get(), reinterpret_cast<sockaddr*>(&name), size) == 0);
    REQUIRE(listen(fd.get(), 4) == 0);
    REQUIRE(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) == 0);
    address = {"127.0.0.1", ntohs(name.sin_port)};
  }
  UniqueFd fd;
  Address address;
};

TEST_CASE("a page of an admin port is read") {
  AdminServer::Options options{.address = "127.0.0.1:0"};
  const std::string large(200'000, 'x');
  options.status = [&] { return large; };
  options.status_json = [] { return R"({"step": 7})"; };
  const auto server = AdminServer::Start(options);
  REQUIRE(server.ok());
  const Address address{"127.0.0.1", (*server)->port()};
  CHECK(GetAdminPage(address, "/statusz", seconds(20)).value() == large);
  CHECK(GetAdminPage(address, "/status.json", seconds(20)).value() == "{\"step\": 7}\n");
  CHECK_THAT(GetAdminPage(address, "/metrics", seconds(20)).value(),
             Contains("# TYPE process_resident_memory_bytes gauge"));
  const absl::Status missing = GetAdminPage(address, "/x", seconds(20)).status();
  CHECK(absl::IsNotFound(missing));
  CHECK_THAT(std::string(missing.message()), Contains("has no page /x"));
}

TEST_CASE("a role without a status for programs has no such page") {
  const auto server = AdminServer::Start({.address = "127.0.0.1:0"});
  REQUIRE(server.ok());
  const Address address{"127.0.0.1", (*server)->port()};
  CHECK(absl::IsNotFound(GetAdminPage(address, "/status.json", seconds(20)).status()));
}

TEST_CASE("what is no admin port is an error that names the address") {
  Listener listener;
  const auto why = [&](Duration timeout) {
    const absl::Status status = GetAdminPage(listener.address, "/statusz", timeout).status();
    CHECK_THAT(std::string(status.message()), Contains(listener.address.ToString()));
    return status;
  };
  SECTION("it does not answer") {
    CHECK_THAT(std::string(why(std::chrono::milliseconds(50)).message()),
               Contains("no answer in time"));
  }
  SECTION("it speaks another protocol") {
    auto answer = std::async(std::launch::async, [&] {
      const UniqueFd peer(accept(listener.fd.get(), nullptr, nullptr));
      char request[256];
      CHECK(recv(peer.get(), request, sizeof(request), 0) > 0);
      CHECK(send(peer.get(), "220 mail\r\n", 10, MSG_NOSIGNAL) == 10);
    });
    CHECK(absl::IsDataLoss(why(seconds(20))));
    answer.get();
  }
  SECTION("nothing listens") {
    listener.fd = UniqueFd();
    const absl::Status status = why(seconds(20));
    CHECK(absl::IsUnavailable(status));
    CHECK_THAT(std::string(status.message()), Contains("Connection refused"));
  }
}

}  // namespace
}  // namespace cohort
