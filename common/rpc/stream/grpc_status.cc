#include "common/rpc/stream/grpc_status.h"

#include <absl/status/status.h>

#include <string_view>

#include "common/base/status_proto.h"
#include "proto/types.pb.h"

namespace cohort {
namespace {

struct Phrase {
  std::string_view grpc;
  std::string_view plain;
};

// Why gRPC could not connect. Looked for in a message that begins with kCannotConnect:
//
//   failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to
//   remote host: Connection refused
constexpr std::string_view kCannotConnect = "failed to connect to all addresses";
constexpr Phrase kConnectFailures[] = {
    {"wrong version number",
     "the task at this address does not speak TLS: give it certificates too (--tls_dir)"},
    {"Ssl handshake failed", "the TLS handshake failed; the other end's log may say why"},
    {"Connection refused", "connection refused"},
    {"Failed parsing HTTP/2", "the program at this address is not a Cohort task"},
    {"SETTINGS frame", "the program at this address is not a Cohort task"},
    {"No route to host", "no route to the host"},
    {"unreachable", "no route to the host"},
    {"No such file or directory", "the socket file does not exist"},
    {"Permission denied", "permission denied"},
    {"imed out", "timed out"},
    {"Deadline Exceeded", "timed out"},
    {"Connection reset", "the connection was reset"},
    // A server sends no reason if it refuses the peer before HTTP/2 begins.
    {"Socket closed",
     "the other end closed the connection in the handshake; if it refuses this task, its log says "
     "why (peer_refused)"},
};

// The verdict of this process on the server's certificate (credentials.h) follows this text.
constexpr std::string_view kRefusedServer = "Custom verification check failed with error: ";
constexpr std::string_view kRefusedCode = "UNAUTHENTICATED: ";

// How gRPC's own messages begin when it has lost a connection or cannot resolve a name.
constexpr Phrase kLosses[] = {
    {"DNS resolution failed", "the host name is unknown"},
    {"keepalive watchdog timeout", "timed out: no answer to keep-alive pings"},
    {"ping timeout", "timed out: no answer to keep-alive pings"},
    {"Handshake timed out", "timed out"},
    {"Connection reset by peer", "the connection was reset"},
    {"recvmsg", "the connection was reset"},
    {"Socket closed", "the connection was closed"},
    {"Broken pipe", "the connection was closed"},
    {"Endpoint", "the connection was closed"},
    // gRPC does not pass on the text in it (Http2Goodbye).
    {"GOAWAY received",
     "the other end ended the connection; a task that takes only TLS does so to plaintext: compare "
     "the --tls_dir of both"},
    {"Stream removed", "the connection was closed"},
    {"Transport closed", "the connection was closed"},
    {"transport is closing", "the connection was closed"},
};

// The message in plain words. A peer's own message is returned as it is.
std::string PlainMessage(const grpc::Status& status) {
  const std::string& message = status.error_message();
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return message;
  if (message.starts_with(kCannotConnect)) {
    if (const size_t refused = message.find(kRefusedServer); refused != message.npos) {
      const std::string verdict = message.substr(refused + kRefusedServer.size());
      return verdict.starts_with(kRefusedCode) ? verdict.substr(kRefusedCode.size()) : verdict;
    }
    for (const Phrase& phrase : kConnectFailures) {
      if (message.find(phrase.grpc) != message.npos) return std::string(phrase.plain);
    }
    return "no connection";
  }
  for (const Phrase& phrase : kLosses) {
    if (message.starts_with(phrase.grpc)) return std::string(phrase.plain);
  }
  return message;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status, std::string* failure) {
  failure->clear();
  v1::StatusProto proto;
  StatusToProto(status, &proto);
  if (proto.code() == 0) return grpc::Status::OK;
  if (proto.has_failure()) proto.failure().SerializeToString(failure);
  return grpc::Status(static_cast<grpc::StatusCode>(proto.code()), proto.message());
}

absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& failure) {
  v1::StatusProto proto;
  proto.set_code(status.error_code());
  proto.set_message(PlainMessage(status));
  if (failure.empty() || !proto.mutable_failure()->ParseFromString(failure)) proto.clear_failure();
  return StatusFromProto(proto);
}

}  // namespace cohort
