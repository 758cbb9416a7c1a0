#include <absl/status/status.h>

#include "common/base/status.h"
#include "common/rpc/grpc_status.h"
#include "common/rpc/status_proto.h"
#include "proto/types.pb.h"

namespace cohort {
namespace {

void FailureToProto(const FailureInfo& info, v1::FailureInfo* proto) {
  proto->set_role(info.role);
  proto->set_index(info.index);
  proto->set_incarnation(info.incarnation);
  proto->set_retryable(info.retryable);
}

void AttachFailure(const v1::FailureInfo& proto, absl::Status* status) {
  SetFailure(status, {proto.role(), proto.index(), proto.incarnation(), proto.retryable()});
}

// A code from outside; what absl does not know counts as Unknown.
absl::Status MakeFromWire(int code, std::string_view message) {
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  return absl::Status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      absl::string_view(message.data(), message.size()));
}

}  // namespace

void StatusToProto(const absl::Status& status, v1::StatusProto* proto) {
  proto->Clear();
  if (status.ok()) return;
  proto->set_code(static_cast<int>(status.code()));
  proto->set_message(status.message().data(), status.message().size());
  if (const auto info = GetFailure(status)) FailureToProto(*info, proto->mutable_failure());
}

absl::Status StatusFromProto(const v1::StatusProto& proto) {
  if (proto.code() == 0) return absl::OkStatus();
  absl::Status status = MakeFromWire(proto.code(), proto.message());
  if (proto.has_failure()) AttachFailure(proto.failure(), &status);
  return status;
}

grpc::Status ToGrpcStatus(const absl::Status& status, std::string* failure) {
  failure->clear();
  if (status.ok()) return grpc::Status::OK;
  if (const auto info = GetFailure(status)) {
    v1::FailureInfo proto;
    FailureToProto(*info, &proto);
    proto.SerializeToString(failure);
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      std::string(status.message().data(), status.message().size()));
}

absl::Status FromGrpcStatus(const grpc::Status& status, const std::string& failure) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result = MakeFromWire(status.error_code(), status.error_message());
  v1::FailureInfo proto;
  if (!failure.empty() && proto.ParseFromString(failure)) AttachFailure(proto, &result);
  return result;
}

}  // namespace cohort
