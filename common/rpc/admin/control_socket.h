#ifndef COHORT_COMMON_RPC_ADMIN_CONTROL_SOCKET_H_
#define COHORT_COMMON_RPC_ADMIN_CONTROL_SOCKET_H_

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/unique_fd.h"

namespace cohort {

// The path of a chief's control socket in its checkpoint directory.
inline constexpr std::string_view kControlSocket = "control/chief.sock";

// The listening unix socket of a chief. It has the mode 0600 and lies in a directory of the mode
// 0700, so that only its owner can connect. The length of the path does not matter: the system
// sees the short path of the open directory (/proc/self/fd/N).
class ControlSocket {
 public:
  // Creates the directory if it is missing, and replaces a socket that has the name: the caller
  // guarantees that its owner is dead, or has lost the job. Errors: FailedPrecondition if the name
  // of the directory is taken by something else, or it belongs to another user; else the status of
  // the system's error (a file system without sockets).
  static absl::StatusOr<std::unique_ptr<ControlSocket>> Listen(const std::string& path);
  // True if a process listens on the socket with this path.
  static bool IsServed(const std::string& path);
  // Removes the socket, unless another one has its name now.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // Gives the listening descriptor away; call it once.
  UniqueFd TakeListener() { return std::move(fd_); }

 private:
  ControlSocket(UniqueFd directory, std::string name, UniqueFd fd, ino_t inode)
      : directory_(std::move(directory)),
        name_(std::move(name)),
        fd_(std::move(fd)),
        inode_(inode) {}

  const UniqueFd directory_;
  const std::string name_;
  UniqueFd fd_;
  const ino_t inode_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ADMIN_CONTROL_SOCKET_H_
