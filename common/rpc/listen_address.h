#ifndef COHORT_COMMON_RPC_LISTEN_ADDRESS_H_
#define COHORT_COMMON_RPC_LISTEN_ADDRESS_H_

#include <absl/status/status.h>

#include <string>

namespace cohort {

// Whether `address` ("host:port", "unix:/path") can be listened on right now; gRPC only
// says that it failed, this says why. Errors: AlreadyExists (taken), InvalidArgument (not an
// address, unknown host, path too long), PermissionDenied, Unavailable; each names the address.
absl::Status CheckCanListen(const std::string& address);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_LISTEN_ADDRESS_H_
