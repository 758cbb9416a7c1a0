#include "common/rpc/stream/peer_admission.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/server_context.h>

#include <memory>
#include <string_view>

#include "common/base/status.h"
#include "common/cluster/security.h"

namespace cohort {
namespace {

// The first value; "" if there is none.
std::string Property(const grpc::AuthContext& context, const char* name) {
  const std::vector<grpc::string_ref> values = context.FindPropertyValues(name);
  return values.empty() ? "" : std::string(values[0].data(), values[0].size());
}

}  // namespace

absl::StatusOr<StreamPeer> AdmitPeer(const Security& security,
                                     const grpc::ServerContextBase& context,
                                     const std::string& method) {
  StreamPeer peer{.address = context.peer(), .identity = std::nullopt};
  const auto& metadata = context.client_metadata();
  const auto token = metadata.find(kSecretKey);
  COHORT_RETURN_IF_ERROR(security.CheckSecret(
      token == metadata.end() ? "" : std::string_view(token->second.data(), token->second.size()),
      peer.address, method));
  if (!security.uses_tls(peer.address)) return peer;
  const std::shared_ptr<const grpc::AuthContext> authenticated = context.auth_context();
  if (authenticated == nullptr) {
    return Internal("gRPC does not say who the peer {} is", peer.address);
  }
  const PeerCertificate certificate{
      .leaf = Property(*authenticated, GRPC_X509_PEM_CERT_PROPERTY_NAME),
      .chain = Property(*authenticated, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME)};
  COHORT_ASSIGN_OR_RETURN(peer.identity, security.AdmitClient(certificate, peer.address, method));
  return peer;
}

}  // namespace cohort
