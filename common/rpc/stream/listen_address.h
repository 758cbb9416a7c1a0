#ifndef COHORT_COMMON_RPC_STREAM_LISTEN_ADDRESS_H_
#define COHORT_COMMON_RPC_STREAM_LISTEN_ADDRESS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"

namespace cohort {

// Checks that `address` ("host:port", "unix:/path") can be listened on right now. gRPC only reports
// that listening failed; this reports why. Errors: AlreadyExists (taken), InvalidArgument (not an
// address, unknown host, path too long), PermissionDenied, Unavailable; each names the address.
absl::Status CheckCanListen(const std::string& address);

// Returns a non-blocking socket that listens on the first of the addresses of "host:port". Errors:
// as above.
absl::StatusOr<UniqueFd> ListenOn(const std::string& address);

// As gRPC listens: on all addresses of "host:port" with the same port, which is returned in `port`.
// A wildcard of either family takes both. The sockets are non-blocking and do not delay small
// segments. Errors: as above.
absl::StatusOr<std::vector<UniqueFd>> ListenOnAll(const std::string& address, int* port);

// The path of "unix:/path".
std::string UnixPath(const std::string& address);
// Listens on a path, and replaces a socket file that is there. Errors: as above.
absl::StatusOr<UniqueFd> ListenOnUnix(const std::string& path);

// Connections of the listener are lost if a peer has not acknowledged what was sent for this time.
void SetUserTimeout(const UniqueFd& listener, std::chrono::milliseconds timeout);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_LISTEN_ADDRESS_H_
