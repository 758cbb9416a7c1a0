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

class Security;

// The gRPC credentials for an address. Errors: those of Security::CheckServe and CheckDial.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    const Security& security, std::string_view address);
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const Security& security, std::string_view address);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_CREDENTIALS_H_
