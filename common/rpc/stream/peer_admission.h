#ifndef COHORT_COMMON_RPC_STREAM_PEER_ADMISSION_H_
#define COHORT_COMMON_RPC_STREAM_PEER_ADMISSION_H_

#include <absl/status/statusor.h>

#include <string>

#include "common/rpc/stream/stream.h"

namespace grpc {
class ServerContextBase;
}  // namespace grpc

namespace cohort {

class Security;

// The key of the metadata of a stream that has Security::secret_token.
inline constexpr char kSecretKey[] = "cohort-secret";

// Decides at a server who has opened a stream of `method`, and whether the peer may. A StreamServer
// calls it for every stream, before a handler sees it. The ConnectionAcceptor and the handshake
// have admitted the connection; this function also knows the method. With a secret, the stream must
// carry it. A peer of TCP with certificates must be allowed to call the method, and its certificate
// must be good now, whatever it was when the connection began. Errors: PermissionDenied.
absl::StatusOr<StreamPeer> AdmitPeer(const Security& security,
                                     const grpc::ServerContextBase& context,
                                     const std::string& method);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_PEER_ADMISSION_H_
