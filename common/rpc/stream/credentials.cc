#include "common/rpc/stream/credentials.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include "common/base/status.h"
#include "common/cluster/address.h"

namespace cohort {

bool IsLoopbackAddress(std::string_view address) {
  if (address.starts_with("unix:")) return true;
  if (address.starts_with('[')) {
    const size_t end = address.find(']');
    return end != std::string_view::npos && IsLoopback(address.substr(1, end - 1));
  }
  return IsLoopback(address.substr(0, address.rfind(':')));
}

absl::Status CheckPlaintextAllowed(std::string_view what, std::string_view address,
                                   bool allow_insecure) {
  if (allow_insecure || IsLoopbackAddress(address)) return absl::OkStatus();
  const absl::Status refused = FailedPrecondition(
      "{} {}: plaintext is refused beyond loopback; give --allow_insecure where the network is "
      "trusted",
      what, address);
  const std::string host(address.substr(0, address.rfind(':')));
  if (host.empty() || host.starts_with('[')) return refused;
  const std::string why = WhyUnknown(host);
  return why.empty() ? refused : Annotate(refused, why);
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ServerCredentialsFor(
    std::string_view address, bool allow_insecure) {
  COHORT_RETURN_IF_ERROR(CheckPlaintextAllowed("listening on", address, allow_insecure));
  return grpc::InsecureServerCredentials();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> ChannelCredentialsFor(
    std::string_view address, bool allow_insecure) {
  COHORT_RETURN_IF_ERROR(CheckPlaintextAllowed("dialling", address, allow_insecure));
  return grpc::InsecureChannelCredentials();
}

}  // namespace cohort
