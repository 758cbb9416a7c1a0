#include "common/rpc/stream/grpc_status.h"

#include <absl/status/status.h>

#include "common/base/status_proto.h"
#include "proto/types.pb.h"

namespace cohort {

grpc::Status ToGrpcStatus(const absl::Status& status, std::string* failure) {
  failure->clear();
  v1::StatusProto proto;
  StatusToProto(status, &proto);
  if (proto.code() == 0) return grpc::Status::OK;
  if (proto.has_failure()) proto.failure().SerializeToString(failure);
  return grpc::Status(static_cast<grpc::StatusCode>(proto.code()), proto.message());
}

absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& failure) {
  v1::StatusProto proto;
  proto.set_code(status.error_code());
  proto.set_message(status.error_message());
  if (failure.empty() || !proto.mutable_failure()->ParseFromString(failure)) proto.clear_failure();
  return StatusFromProto(proto);
}

}  // namespace cohort
