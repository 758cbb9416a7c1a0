#include "common/base/status_proto.h"

#include <string>
#include <string_view>

#include "common/base/printable.h"
#include "common/base/status.h"
#include "proto/types.pb.h"

namespace cohort {

void StatusToProto(const absl::Status& status, v1::StatusProto* proto) {
  proto->Clear();
  if (status.ok()) return;
  proto->set_code(static_cast<int>(status.code()));
  // It may name a file or show data of other bytes, and a peer parses only UTF-8.
  const std::string_view message(status.message().data(), status.message().size());
  proto->set_message(IsUtf8(message) ? std::string(message) : Printable(message));
  if (const auto info = GetFailure(status)) {
    v1::FailureInfo* const failure = proto->mutable_failure();
    failure->set_role(info->role);
    failure->set_index(info->index);
    failure->set_incarnation(info->incarnation);
    failure->set_retryable(info->retryable);
  }
}

absl::Status StatusFromProto(const v1::StatusProto& proto) {
  const int code = proto.code();
  if (code == 0) return absl::OkStatus();
  const bool known = code > 0 && code <= static_cast<int>(absl::StatusCode::kUnauthenticated);
  absl::Status status(known ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
                      proto.message());
  if (proto.has_failure()) {
    const v1::FailureInfo& info = proto.failure();
    SetFailure(&status, {info.role(), info.index(), info.incarnation(), info.retryable()});
  }
  return status;
}

}  // namespace cohort
