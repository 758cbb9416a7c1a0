#ifndef COHORT_COMMON_RPC_STREAM_GRPC_STATUS_H_
#define COHORT_COMMON_RPC_STREAM_GRPC_STATUS_H_

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

#include <string>

namespace cohort {

// The trailing metadata that carries the FailureInfo of a status: a serialized
// cohort.v1.FailureInfo.
inline constexpr char kFailureMetadataKey[] = "cohort-failure-bin";

// The one place that translates statuses. `failure` receives the value of kFailureMetadataKey, or
// "" if the status has no FailureInfo.
grpc::Status ToGrpcStatus(const absl::Status& status, std::string* failure);
// The inverse. A `failure` that cannot be read counts as none. If gRPC could not connect or lost
// the connection, the message is plain ("connection refused") instead of gRPC's own.
absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& failure);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_GRPC_STATUS_H_
