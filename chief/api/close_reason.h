#ifndef COHORT_CHIEF_API_CLOSE_REASON_H_
#define COHORT_CHIEF_API_CLOSE_REASON_H_

#include <absl/status/status.h>

#include <string>
#include <string_view>

namespace cohort {

// Returns a short reason for a user why a stream to a task ended or could not be opened:
// "connection refused". The texts of the RPC library are long and name its internals, so users
// cannot act on them. A text of the task itself is kept. The reason does not repeat `address`, the
// address of the task, because the caller's message has it. Use it only in messages: decisions use
// codes and typed payloads.
std::string CloseReason(const absl::Status& status, std::string_view address);

}  // namespace cohort

#endif  // COHORT_CHIEF_API_CLOSE_REASON_H_
