#ifndef COHORT_COMMON_RPC_CONTROL_CONTROL_MESSAGE_H_
#define COHORT_COMMON_RPC_CONTROL_CONTROL_MESSAGE_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

namespace cohort {

// The answer to a request on the control socket, one line of JSON:
//
//   {"result": {...}}                                     `result` is the handler's JSON object
//   {"error": {"code": 9, "message": "..."}}              code: absl::StatusCode
//
// A request is one line of JSON too; its handler defines it.
std::string EncodeControlAnswer(const absl::StatusOr<std::string>& result);
// Returns the result, as JSON text, or the error. Errors: also DataLoss for other text.
absl::StatusOr<std::string> DecodeControlAnswer(std::string_view line);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_CONTROL_CONTROL_MESSAGE_H_
