#include "common/rpc/control/control_client.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "common/base/exit_code.h"
#include "common/base/status.h"
#include "common/rpc/control/control_message.h"
#include "common/rpc/control/control_socket.h"

namespace cohort {
namespace {

constexpr Duration kSendTimeout = std::chrono::seconds(10);

bool IsSocket(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

}  // namespace

absl::StatusOr<std::string> FindControlSocket(const std::string& run) {
  const std::string below = fmt::format("{}/{}", run, kControlSocket);
  const std::string of_local = fmt::format("{}/checkpoints/{}", run, kControlSocket);
  for (const std::string& path : {run, below, of_local}) {
    errno = 0;
    if (IsSocket(path)) return path;
    if (errno == EACCES) {
      return WithExitCode(PermissionDenied("{} cannot be reached: permission denied. Give the "
                                           "command as the owner of the job",
                                           path),
                          ExitCode::kNoPermission);
    }
  }
  return NotFound(
      "no running job in {}: neither {} nor {} is a socket. Give the run directory of `cohort "
      "local`, or the checkpoint directory of a cohort-chief that runs on this host",
      run, below, of_local);
}

absl::StatusOr<std::string> CallControl(const std::string& socket, std::string_view request,
                                        TimePoint deadline) {
  const auto connection = ConnectToControlSocket(socket);
  if (absl::IsUnavailable(connection.status())) {
    return Annotate(connection.status(),
                    "no chief listens; it has ended, or it runs on another host");
  }
  COHORT_RETURN_IF_ERROR(connection.status());
  const TimePoint sent_by = std::min(deadline, std::chrono::steady_clock::now() + kSendTimeout);
  // A server that refuses this user answers without reading.
  const absl::Status sent = WriteControlLine(connection->get(), request, sent_by, /*cancel=*/-1);
  const auto answer = ReadControlLine(connection->get(), deadline, /*cancel=*/-1);
  if (absl::IsDeadlineExceeded(answer.status())) {
    return Unavailable("the chief listens on {}, but it does not answer", socket);
  }
  if (!answer.ok()) {
    return Unavailable("the chief ended before it answered: {}",
                       std::string((sent.ok() ? answer.status() : sent).message()));
  }
  return DecodeControlAnswer(*answer);
}

}  // namespace cohort
