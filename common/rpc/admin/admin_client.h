#ifndef COHORT_COMMON_RPC_ADMIN_ADMIN_CLIENT_H_
#define COHORT_COMMON_RPC_ADMIN_ADMIN_CLIENT_H_

#include <absl/status/statusor.h>

#include <string>

#include "common/base/clock.h"

namespace cohort {

// Returns the control socket of the job that `run` names: the run directory of `cohort local`, the
// checkpoint directory of a chief, or the socket itself. Errors: NotFound, with advice for the
// user, if there is none.
absl::StatusOr<std::string> FindControlSocket(const std::string& run);

// Sends a command with its request, a JSON object, to a control socket (admin_server.h). Waits for
// the answer, a JSON object, for `timeout` at most; zero: without a limit. Errors: those of the
// command; NotFound if there is no such socket; Unavailable, with advice for the user, if no chief
// listens, or if it does not answer or ends before; DataLoss for an answer that no chief writes.
absl::StatusOr<std::string> CallControl(const std::string& socket, const std::string& command,
                                        const std::string& request,
                                        Duration timeout = Duration::zero());

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ADMIN_ADMIN_CLIENT_H_
