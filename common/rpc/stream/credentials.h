#ifndef COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_
#define COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string_view>

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace cohort {

// Whether bytes sent to or accepted at this address never leave the host: a unix socket, a loopback
// IP, or the name localhost. Another host name is not, whatever it resolves to today; nor is a
// wildcard ("0.0.0.0:1", "[::]:1", ":1").
bool IsLoopbackAddress(std::string_view address);

// OK where plaintext may be used at `address`; else FailedPrecondition (exit 78) that names the
// address and the flag. `what` starts the message: "listening on", "dialling".
absl::Status CheckPlaintextAllowed(std::string_view what, std::string_view address,
                                   bool allow_insecure);

// The credentials of an address. Plaintext only so far (mutual TLS beyond loopback comes with the
// issue that brings certificates), so beyond loopback an error without `allow_insecure`.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    std::string_view address, bool allow_insecure);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    std::string_view address, bool allow_insecure);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_
