#include "common/cluster/security.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"

namespace cohort {
namespace {

using Catch::Contains;

TEST_CASE("plaintext stays on loopback unless it is allowed") {
  const Security& strict = *Security::LoopbackOnly();
  const auto trusting = Security::Create(/*allow_insecure=*/true);
  for (const char* address : {"127.0.0.1:1", "unix:/run/x", "[::1]:5"}) {
    CHECK(strict.CheckServe("listening on", address).ok());
    CHECK(strict.CheckDial(address).ok());
  }
  CHECK(strict.CheckBind({"127.0.0.1", 1}).ok());
  CHECK(trusting->CheckBind({"0.0.0.0", 1}).ok());
  CHECK(trusting->CheckServe("listening on", "0.0.0.0:1").ok());
  CHECK(trusting->CheckDial("10.0.0.1:2222").ok());
  for (const absl::Status& refused :
       {strict.CheckBind({"10.0.0.1", 1}), strict.CheckServe("listening on", "10.0.0.1:1"),
        strict.CheckDial("10.0.0.1:1")}) {
    CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
    CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
    CHECK_THAT(std::string(refused.message()),
               Contains("10.0.0.1:1") && Contains("--allow_insecure"));
  }
  CHECK_THAT(std::string(strict.CheckServe("serving metrics on", ":1").message()),
             Catch::StartsWith("serving metrics on :1: plaintext is refused"));
}

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

}  // namespace
}  // namespace cohort
