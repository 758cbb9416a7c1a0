#ifndef COHORT_COMMON_BASE_STATUS_PROTO_H_
#define COHORT_COMMON_BASE_STATUS_PROTO_H_

#include <absl/status/status.h>

namespace cohort {

namespace v1 {
class StatusProto;
}  // namespace v1

// Writes a status with its FailureInfo. OK leaves `proto` empty (code 0).
void StatusToProto(const absl::Status& status, v1::StatusProto* proto);
// The inverse. A code that absl does not know becomes Unknown.
absl::Status StatusFromProto(const v1::StatusProto& proto);

}  // namespace cohort

#endif  // COHORT_COMMON_BASE_STATUS_PROTO_H_
