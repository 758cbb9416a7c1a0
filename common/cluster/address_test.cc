#include "common/cluster/address.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

using Catch::Contains;

std::string Error(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("addresses are read and written") {
  const auto plain = ParseAddress("host3:2222");
  REQUIRE(*plain == Address{"host3", 2222});
  REQUIRE(plain->ToString() == "host3:2222");
  const auto v6 = ParseAddress("[fe80::1%eth0]:80");
  REQUIRE(v6->host == "fe80::1%eth0");
  REQUIRE(v6->ToString() == "[fe80::1%eth0]:80");
}

TEST_CASE("the error of a malformed address names the mistake") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "has no host"},
      {"host", "has no port"},
      {"host:", "has no port"},
      {":80", "has no host"},
      {"host:http", "the port \"http\" is not a number"},
      {"host:0", "the port 0 is not between 1 and 65535"},
      {"host:65536", "the port 65536 is not between 1 and 65535"},
      {"host:80x", "is not a number"},
      {"::1:80", "write an IPv6 address in brackets"},
      {"[::1", "has no closing ']'"},
      {"[::1]80", "is not an address"},
      {"grpc://host:80", "has a scheme"},
      {"ho st:80", "is not an address"},
      {"user@host:80", "is not an address"},
  };
  for (const auto& [text, message] : cases) {
    INFO(text);
    const auto address = ParseAddress(text);
    REQUIRE(address.status().code() == absl::StatusCode::kInvalidArgument);
    REQUIRE_THAT(Error(address.status()), Contains(message));
  }
}

TEST_CASE("loopback is recognized by name or literal") {
  for (const char* host : {"localhost", "127.0.0.1", "127.1.2.3", "::1"}) REQUIRE(IsLoopback(host));
  for (const char* host : {"127.0.0.1.example.com", "127.example", "10.0.0.1", "host", "::", ""}) {
    INFO(host);
    REQUIRE_FALSE(IsLoopback(host));
  }
}

TEST_CASE("the address to listen on") {
  const Address far{"host3", 2222};
  REQUIRE(*BindAddress("", far) == Address{"0.0.0.0", 2222});
  REQUIRE(*BindAddress("", {"localhost", 2222}) == Address{"localhost", 2222});
  REQUIRE(*BindAddress("", {"fd00::7", 2222}) == Address{"::", 2222});
  REQUIRE(*BindAddress("10.0.0.7", far) == Address{"10.0.0.7", 2222});
  REQUIRE(*BindAddress("10.0.0.7:99", far) == Address{"10.0.0.7", 99});
  REQUIRE(*BindAddress(":99", far) == Address{"0.0.0.0", 99});
  REQUIRE(*BindAddress("[::1]:0", far) == Address{"::1", 0});
  REQUIRE_THAT(Error(BindAddress("host:x", far).status()), Contains("--bind: the port"));
  REQUIRE_THAT(Error(BindAddress("no.such.host.invalid:1", far).status()),
               Contains("--bind: the host \"no.such.host.invalid\" cannot be resolved ("));
  REQUIRE_THAT(Error(BindAddress("a:b:c", far).status()), Contains("--bind: "));
}

}  // namespace
}  // namespace cohort
