#include "common/rpc/stream/socket_owner.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "common/rpc/stream/pending_peers.h"

namespace cohort {
namespace {

sockaddr_storage NameOf(const char* host, int port, socklen_t* size) {
  sockaddr_storage name = {};
  auto& ipv4 = reinterpret_cast<sockaddr_in&>(name);
  auto& ipv6 = reinterpret_cast<sockaddr_in6&>(name);
  *size = sizeof(ipv4);
  ipv4.sin_family = AF_INET;
  ipv4.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, host, &ipv4.sin_addr) == 1) return name;
  *size = sizeof(ipv6);
  ipv6 = {};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(static_cast<uint16_t>(port));
  REQUIRE(inet_pton(AF_INET6, host, &ipv6.sin6_addr) == 1);
  return name;
}

// A connection of this process with itself. The client may dial an address of IPv4 by IPv6.
struct Connection {
  explicit Connection(const char* host, const char* dialed = nullptr) {
    socklen_t size = 0;
    sockaddr_storage name = NameOf(host, 0, &size);
    listener = UniqueFd(socket(name.ss_family, SOCK_STREAM, 0));
    REQUIRE(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), size) == 0);
    REQUIRE(listen(listener.get(), 1) == 0);
    getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &size);
    const int port =
        ntohs(reinterpret_cast<sockaddr_in&>(name).sin_port);  // IPv6 has it there, too
    name = NameOf(dialed == nullptr ? host : dialed, port, &size);
    client = UniqueFd(socket(name.ss_family, SOCK_STREAM, 0));
    REQUIRE(connect(client.get(), reinterpret_cast<sockaddr*>(&name), size) == 0);
    server = UniqueFd(accept(listener.get(), nullptr, nullptr));
    REQUIRE(server.ok());
  }
  UniqueFd listener, client, server;
};

TEST_CASE("the kernel names the user of the other end, and so do its tables") {
  SocketOwners owners;
  const auto check = [&owners](const Connection& connection) {
    const auto ends = EndsOf(connection.server.get());
    REQUIRE(ends.has_value());
    INFO(PeerName(*ends));
    bool answers = false;
    CHECK(owners.AskKernel(*ends, &answers) == geteuid());
    CHECK(answers);
    CHECK(SocketOwners::ReadTables(*ends) == geteuid());
    CHECK(owners.OwnerOfPeer(*ends) == geteuid());
  };
  check(Connection("127.0.0.1"));
  check(Connection("127.0.0.1", "::ffff:127.0.0.1"));
  check(Connection("::1"));
}

TEST_CASE("a socket that is closed, or is no end of this connection, has no owner") {
  SocketOwners owners;
  Connection connection("127.0.0.1");
  auto ends = EndsOf(connection.server.get());
  REQUIRE(ends.has_value());
  const auto nobody = [&owners](const TcpEnds& of) {
    bool answers = false;
    CHECK_FALSE(owners.AskKernel(of, &answers).has_value());
    CHECK(answers);
    CHECK_FALSE(SocketOwners::ReadTables(of).has_value());
  };
  // The kernel would find the listener of that port.
  TcpEnds listener = *ends;
  std::swap(listener.own, listener.peer);
  ++listener.own.port;
  nobody(listener);
  // It says that a socket which nobody holds belongs to root.
  connection.client.Close();
  nobody(*ends);
  CHECK_FALSE(EndsOf(connection.listener.get()).has_value());
}

TEST_CASE("peers that are not admitted are limited, in all and by host") {
  PendingPeers peers;
  CHECK(peers.Describe() == "unknown");
  for (size_t i = 0; i < PendingPeers::kMostOfHost; ++i) {
    CHECK(peers.Add(fmt::format("ipv4:10.0.0.1:{}", i)));
  }
  CHECK_FALSE(peers.Add("ipv4:10.0.0.1:9999"));
  CHECK(peers.Describe() == fmt::format("ipv4:10.0.0.1:{}", PendingPeers::kMostOfHost - 1));
  CHECK(peers.Add("ipv4:10.0.0.2:1"));
  CHECK(peers.Describe() == "one of ipv4:10.0.0.1 ipv4:10.0.0.2");
  peers.Admit("ipv4:10.0.0.1:5");
  CHECK(peers.Add("ipv4:10.0.0.1:9999"));
  for (size_t i = 1; i < PendingPeers::kMostOfHost; ++i) {
    CHECK(peers.Add(fmt::format("ipv4:10.0.0.2:{}", i)));
  }
  CHECK_FALSE(peers.Add("ipv4:10.0.0.3:1"));
  peers.Forget();
  CHECK(peers.Add("ipv4:10.0.0.3:1"));
}

}  // namespace
}  // namespace cohort
