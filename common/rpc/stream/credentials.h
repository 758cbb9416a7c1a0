#ifndef COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_
#define COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/cluster/cluster_spec.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace cohort {

class Security;

// gRPC's credentials. Those for TLS leave the verdict on the peer's certificate to Security, so
// that every refusal is counted and says why: a client decides while it connects
// (Security::CheckServer), a server when a stream is opened (PeerAdmission).

// For an address that a server listens on. With certificates, for TLS 1.2 or later: the client is
// asked for its certificate, and gRPC reads changed files within a second. Errors: those of
// Security::CheckServe.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    const Security& security, std::string_view address);

// For an address that a client dials; `task` is the one that should be there. With certificates,
// they hold the files as they are now. Errors: those of Security::CheckDial.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const std::shared_ptr<const Security>& security, const std::string& address,
    std::optional<Task> task);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_
