#include "common/rpc/stream/credentials.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "common/base/status.h"
#include "common/cluster/security.h"

namespace cohort {

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    const Security& security, std::string_view address) {
  COHORT_RETURN_IF_ERROR(security.CheckServe("listening on", address));
  return grpc::InsecureServerCredentials();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    const Security& security, std::string_view address) {
  COHORT_RETURN_IF_ERROR(security.CheckDial(address));
  return grpc::InsecureChannelCredentials();
}

}  // namespace cohort
