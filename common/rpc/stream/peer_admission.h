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

// Decides at a server who has opened a stream of `method`, and whether the peer may. A StreamServer
// calls it for every stream, before a handler sees it. Without certificates every peer is admitted.
// With them a peer of a unix socket is (it belongs to the same user), and a peer of TCP by its
// certificate. Errors: PermissionDenied.
absl::StatusOr<StreamPeer> AdmitPeer(const Security& security,
                                     const grpc::ServerContextBase& context,
                                     const std::string& method);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_PEER_ADMISSION_H_
