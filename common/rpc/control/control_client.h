#ifndef COHORT_COMMON_RPC_CONTROL_CONTROL_CLIENT_H_
#define COHORT_COMMON_RPC_CONTROL_CONTROL_CLIENT_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "common/base/clock.h"

namespace cohort {

// The path of a chief's control socket in its checkpoint directory.
inline constexpr std::string_view kControlSocket = "control/chief.sock";

// Returns the control socket of the job that `run` names: the run directory of `cohort local`, the
// checkpoint directory of a chief, or the socket itself. Errors: NotFound, with advice for the
// user, if there is none.
absl::StatusOr<std::string> FindControlSocket(const std::string& run);

// Sends one request (a JSON object) and waits for its answer until `deadline`. Returns the result, a
// JSON object. Errors: those of the request; Unavailable, with advice for the user, if no chief
// listens, or if it does not answer or ends before.
absl::StatusOr<std::string> CallControl(const std::string& socket, std::string_view request,
                                        TimePoint deadline = TimePoint::max());

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_CONTROL_CONTROL_CLIENT_H_
