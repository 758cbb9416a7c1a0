#ifndef COHORT_CHIEF_API_CLOSE_REASON_H_
#define COHORT_CHIEF_API_CLOSE_REASON_H_

#include <absl/status/status.h>

#include <string>

namespace cohort {

// Why a stream to a task ended or could not be opened, in a few words for a person: "connection
// refused". The texts of the RPC library are long and name its internals; no user can act on them.
// What the task itself said is kept. Only for messages: decisions use codes and typed payloads.
std::string CloseReason(const absl::Status& status);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CLOSE_REASON_H_
