#ifndef COHORT_COMMON_RPC_STREAM_LISTEN_ADDRESS_H_
#define COHORT_COMMON_RPC_STREAM_LISTEN_ADDRESS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "common/base/unique_fd.h"

namespace cohort {

// Checks that `address` ("host:port", "unix:/path") can be listened on right now. gRPC only reports
// that listening failed; this reports why. Errors: AlreadyExists (taken), InvalidArgument (not an
// address, unknown host, path too long), PermissionDenied, Unavailable; each names the address.
absl::Status CheckCanListen(const std::string& address);

// Returns a non-blocking socket that listens on the first of the addresses of "host:port". Errors:
// as above.
absl::StatusOr<UniqueFd> ListenOn(const std::string& address);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_LISTEN_ADDRESS_H_
