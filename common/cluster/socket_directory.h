#ifndef COHORT_COMMON_CLUSTER_SOCKET_DIRECTORY_H_
#define COHORT_COMMON_CLUSTER_SOCKET_DIRECTORY_H_

#include <absl/status/statusor.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>

namespace cohort {

// The longest path of a socket directory: the system limits the path of a socket, and the file name
// takes its part.
inline constexpr size_t kLongestSocketDirectory = sizeof(sockaddr_un::sun_path) - 1 - 36;

// The parents of socket directories; tests pass others.
struct SocketDirectoryRoots {
  std::string runtime_dir;  // $XDG_RUNTIME_DIR; "": there is none
  std::string temporary = "/tmp";
};

// The directory where the tasks of this user on one host meet over unix sockets if no flag names
// one: "cohort" in the runtime directory if that belongs to this user, else "cohort-<uid>" in the
// temporary directory. Created for this user alone if it is missing.
//
// Errors: FailedPrecondition with exit code 77 if the name is taken by something that is not a
// directory, belongs to another user, or is open to others; FailedPrecondition if it cannot hold a
// socket; else the status of the system's error.
absl::StatusOr<std::string> OwnSocketDirectory(const SocketDirectoryRoots& roots);

// The path of the socket of one incarnation of a server. No two processes share a path.
std::string SocketPath(const std::string& directory, uint32_t ps, uint64_t incarnation);

// Removes the sockets of killed processes from OwnSocketDirectory: no process listens on them, and
// they are older than the time from creating a socket to listening on it. Not for a directory that
// several hosts share: live sockets of another host look dead.
void RemoveDeadSockets(const std::string& directory, time_t now);

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_SOCKET_DIRECTORY_H_
