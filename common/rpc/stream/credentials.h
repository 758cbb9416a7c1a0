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

class PendingPeers;
class Security;

// gRPC's credentials. Those for TLS leave the verdict on the peer's certificate to Security, so
// that every refusal is counted and says why. Both ends decide in the handshake: a client by
// Security::CheckServer, a server by Security::CheckHandshake, before there is an HTTP/2
// connection. A server also checks each stream (PeerAdmission).

// For an address that a server listens on. With certificates, for TLS 1.2 or later; gRPC reads
// changed files within a second. `pending`: the connections that are in their handshake. Errors:
// those of Security::CheckServe.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    const std::shared_ptr<const Security>& security, std::string_view address,
    std::shared_ptr<PendingPeers> pending);

// For an address that a client dials; `task` is the one that should be there. With certificates,
// they hold the files as they are now. Errors: those of Security::CheckDial.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const std::shared_ptr<const Security>& security, const std::string& address,
    std::optional<Task> task);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_
