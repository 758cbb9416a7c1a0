#ifndef COHORT_COMMON_CLUSTER_SOCKET_DIRECTORY_H_
#define COHORT_COMMON_CLUSTER_SOCKET_DIRECTORY_H_

#include <absl/status/statusor.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>

namespace cohort {

// Of a directory's path: the system limits those of sockets, and a socket's name takes its part.
inline constexpr size_t kLongestSocketDirectory = sizeof(sockaddr_un::sun_path) - 1 - 36;

// Where directories for sockets are made; tests give others.
struct SocketDirectoryRoots {
  std::string runtime_dir;  // $XDG_RUNTIME_DIR; "": there is none
  std::string temporary = "/tmp";
};

// The directory where this user's tasks of one host meet over unix sockets when no flag names one:
// "cohort" in the runtime directory where that is this user's, else "cohort-<uid>" in the temporary
// one. Made where it is missing, for this user alone. Errors: FailedPrecondition where what has the
// name is no directory, another's, or open to others, or the name does not do for a socket's; else
// what the system said: no socket can be made there.
absl::StatusOr<std::string> OwnSocketDirectory(const SocketDirectoryRoots& roots);

// The path there of one life's socket: no two processes ever share one.
std::string SocketPath(const std::string& directory, uint32_t ps, uint64_t incarnation);

// Removes from OwnSocketDirectory the sockets that killed processes left: nobody listens there, and
// they are older than a process needs from making its socket to listening on it. (In a directory
// that hosts share, another host's live sockets would look like these.)
void RemoveDeadSockets(const std::string& directory, time_t now);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_SOCKET_DIRECTORY_H_
