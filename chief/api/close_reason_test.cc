#include "chief/api/close_reason.h"

#include <catch2/catch.hpp>

#include "common/base/status.h"

namespace cohort {
namespace {

TEST_CASE("the RPC library's texts become a few words, and a task's own words are kept") {
  const auto reason = [](const absl::Status& status) { return CloseReason(status, "h:1"); };
  CHECK(reason(absl::OkStatus()) == "it closed the stream");
  CHECK(reason(Unavailable("h:1: failed to connect to all addresses; last error: UNKNOWN: "
                           "ipv4:127.0.0.1:5: Failed to connect to remote host: Connection "
                           "refused")) == "connection refused");
  CHECK(reason(Unavailable("unix:/x: failed to connect to all addresses; last error: UNKNOWN: "
                           "unix:/x: No such file or directory")) == "connection refused");
  CHECK(reason(Unavailable("h:1: DNS resolution failed for h:1")) ==
        "the host name cannot be resolved");
  CHECK(reason(Unavailable("h:1: failed to connect to all addresses")) == "it cannot be reached");
  CHECK(reason(Unavailable("h:1: Socket closed")) == "the connection was closed");
  CHECK(reason(Unavailable("h:1: the connection was closed")) == "the connection was closed");
  CHECK(reason(Unavailable("h:1: keepalive watchdog timeout")) == "it does not answer");
  CHECK(reason(FailedPrecondition("h:1: this is worker:1")) == "this is worker:1");
  CHECK(reason(Unimplemented("h:1: unknown method /cohort.v1.Worker/Control")) ==
        "another program answers at this address (a task of another role?)");
  const std::string foreign = "the program at this address is not a Cohort task";
  CHECK(reason(Unimplemented("h:1: Received http2 header with status: 404")) == foreign);
  CHECK(reason(Unimplemented("h:1: Method not found!")) == foreign);
}

}  // namespace
}  // namespace cohort
