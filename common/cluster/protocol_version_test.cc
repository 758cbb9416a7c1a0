#include "common/cluster/protocol_version.h"

#include <catch2/catch.hpp>

#include "common/base/exit_code.h"
#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

TEST_CASE("minor versions mix, and another major version is refused by name") {
  CHECK(CheckProtocol("ps:0", {1, 0}, "this chief", {1, 3}).ok());
  CHECK(CheckProtocol("ps:0", {1, 9}, "this chief", {1, 3}).ok());
  const absl::Status refused = CheckProtocol("ps:0 (host:2222)", {2, 0}, "this chief", {1, 3});
  CHECK(ExitCodeOf(refused) == ExitCode::kConfig);
  CHECK(refused.message() ==
        "ps:0 (host:2222) speaks protocol 2.0, this chief speaks 1.3: install the same major "
        "version of Cohort for both");
  CHECK(!CheckProtocol("the chief", {0, 1}, "ps:0", {1, 0}).ok());
}

TEST_CASE("a message without a version is of version 1.0") {
  CHECK(ProtocolVersion::Of(v1::PsHello()) == ProtocolVersion{1, 0});
  v1::AdoptWorker adopt;
  SetProtocolVersion(&adopt);
  CHECK(ProtocolVersion::Of(adopt) == kProtocolVersion);
  CHECK(kProtocolVersion.major == 2);
}

TEST_CASE("a version has a text") {
  CHECK(ProtocolVersion::Parse("12.3") == ProtocolVersion{12, 3});
  CHECK(ProtocolVersion::Parse(kProtocolVersion.ToString()) == kProtocolVersion);
  for (const char* text : {"", "1", "1.", ".1", "1.2.3", "a.b", "1,2", " 1.2", "-1.2"}) {
    INFO(text);
    CHECK(!ProtocolVersion::Parse(text).has_value());
  }
}

}  // namespace
}  // namespace cohort
