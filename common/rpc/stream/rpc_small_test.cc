// Statuses, control frames and the tuning of gRPC.
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <catch2/catch.hpp>

#include "common/base/status.h"
#include "common/base/status_proto.h"
#include "common/rpc/stream/frame.h"
#include "common/rpc/stream/grpc_status.h"
#include "common/rpc/stream/grpc_tuning.h"
#include "common/rpc/stream/rpc_test_util.h"
#include "proto/worker.pb.h"

namespace cohort {
namespace {

using Catch::Contains;

TEST_CASE("a status keeps its code, message and failure on both wires") {
  absl::Status lost = Unavailable("ps:1 is gone");
  SetFailure(&lost, {.role = "ps", .index = 1, .incarnation = 1ull << 63, .retryable = true});
  for (const absl::Status& status : {absl::OkStatus(), InvalidArgument("no"), lost}) {
    v1::StatusProto proto;
    proto.set_message("stale");
    StatusToProto(status, &proto);
    CHECK(StatusFromProto(proto) == status);
    std::string failure = "stale";
    const grpc::Status translated = ToGrpcStatus(status, &failure);
    CHECK(FromGrpcStatus(translated, failure) == status);
  }
  v1::StatusProto odd;
  odd.set_code(9999);
  CHECK(StatusFromProto(odd).code() == absl::StatusCode::kUnknown);
  odd.set_code(-1);
  CHECK(StatusFromProto(odd).code() == absl::StatusCode::kUnknown);
  const auto garbled = FromGrpcStatus({grpc::StatusCode::ABORTED, "x"}, "\xff\xff");
  CHECK(garbled.code() == absl::StatusCode::kAborted);
  CHECK_FALSE(GetFailure(garbled).has_value());
}

TEST_CASE("a failed or lost connection gets a plain message") {
  const auto plain = [](const char* message) {
    const auto status = FromGrpcStatus({grpc::StatusCode::UNAVAILABLE, message}, "");
    CHECK(absl::IsUnavailable(status));
    return std::string(status.message());
  };
  constexpr char kAll[] = "failed to connect to all addresses; last error: UNKNOWN: ";
  CHECK(plain((kAll + std::string("ipv4:127.0.0.1:1: Failed to connect to remote host: "
                                  "Connection refused"))
                  .c_str()) == "connection refused");
  CHECK(plain((kAll + std::string("ipv4:10.0.0.1:1: No route to host")).c_str()) ==
        "no route to the host");
  CHECK(plain((kAll + std::string("ipv4:10.0.0.1:1: connect() timed out")).c_str()) == "timed out");
  CHECK(plain((kAll + std::string("something new")).c_str()) == "no connection");
  CHECK(plain("DNS resolution failed for x:1: C-ares status is not ARES_SUCCESS") ==
        "the host name is unknown");
  CHECK(plain("Socket closed") == "the connection was closed");
  CHECK(plain("the server is shutting down") == "the server is shutting down");
  const auto other = FromGrpcStatus({grpc::StatusCode::ABORTED, "Socket closed"}, "");
  CHECK(other.message() == "Socket closed");
}

TEST_CASE("control messages in frames") {
  v1::ChiefToWorker message;
  message.set_generation(3);
  message.mutable_adopt()->set_job(std::string(500, 'j'));
  const Frame frame = SerializeToFrame(message);
  CHECK(frame.size() == message.ByteSizeLong());
  v1::ChiefToWorker read;
  REQUIRE(ParseFromFrame(frame, &read).ok());
  CHECK(read.SerializeAsString() == message.SerializeAsString());

  const std::string bytes = message.SerializeAsString();
  const grpc::Slice halves[] = {grpc::Slice(bytes.data(), 100),
                                grpc::Slice(bytes.data() + 100, bytes.size() - 100)};
  REQUIRE(ParseFromFrame(Frame(halves, 2), &read).ok());
  CHECK(read.SerializeAsString() == bytes);

  REQUIRE(ParseFromFrame(SerializeToFrame(v1::ChiefToWorker()), &read).ok());
  CHECK(read.generation() == 0);
  REQUIRE(ParseFromFrame(Frame(), &read).ok());
  const absl::Status bad = ParseFromFrame(FrameOf("\xff\xff junk"), &read);
  CHECK(bad.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(bad.message()),
             Contains("cohort.v1.ChiefToWorker") && Contains("7 bytes"));
}

TEST_CASE("a polling thread finishes what it has begun with gRPC 1.51") {
  const GrpcTuning& tuning = PrepareTransportProcess();
  CHECK(tuning.version == grpc::Version());
  CHECK(tuning.known_version == grpc::Version().starts_with("1.51."));
  CHECK(tuning.executor_override == tuning.known_version);
  CHECK(tuning.tls_override == tuning.known_version);
  MetricsRegistry metrics;
  ReportGrpcTuning(&metrics, nullptr);
  CHECK_THAT(metrics.Text(),
             Contains(fmt::format("cohort_grpc_tuning_info{{executor_override=\"{0}\""
                                  ",tls_override=\"{0}\",version=\"{1}\"}} 1\n",
                                  tuning.known_version, tuning.version)));
}

}  // namespace
}  // namespace cohort
