#include "chief/api/close_reason.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace cohort {
namespace {

TEST_CASE("the RPC library's texts become a few words, and a task's own words are kept") {
  CHECK(CloseReason(absl::OkStatus()) == "it closed the stream");
  CHECK(CloseReason(Unavailable("127.0.0.1:5: failed to connect to all addresses; last error: "
                                "UNKNOWN: ipv4:127.0.0.1:5: Failed to connect to remote host: "
                                "Connection refused")) == "connection refused");
  CHECK(CloseReason(Unavailable("unix:/x: failed to connect to all addresses; last error: UNKNOWN: "
                                "unix:/x: No such file or directory")) == "connection refused");
  CHECK(CloseReason(Unavailable("h:1: DNS resolution failed for h:1")) ==
        "the host name cannot be resolved");
  CHECK(CloseReason(Unavailable("h:1: failed to connect to all addresses")) ==
        "it cannot be reached");
  CHECK(CloseReason(Unavailable("h:1: Socket closed")) == "the connection was closed");
  CHECK(CloseReason(Unavailable("h:1: keepalive watchdog timeout")) == "it does not answer");
  CHECK(CloseReason(FailedPrecondition("h:1: this is worker:1")) == "h:1: this is worker:1");
}

}  // namespace
}  // namespace cohort
