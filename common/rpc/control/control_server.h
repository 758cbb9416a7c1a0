#ifndef COHORT_COMMON_RPC_CONTROL_CONTROL_SERVER_H_
#define COHORT_COMMON_RPC_CONTROL_CONTROL_SERVER_H_

#include <absl/status/statusor.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/unique_fd.h"

namespace cohort {

class ControlSocket;

// Answers requests on a control socket (control_message.h): one request per connection. Each of a
// few threads serves one connection at a time, so a request that takes long, such as a checkpoint,
// does not block the others.
class ControlServer {
 public:
  // Gets a request and returns a JSON object. Called by several threads.
  using Handler = std::function<absl::StatusOr<std::string>(const std::string& request)>;
  struct Options {
    std::string path;  // the socket's
    Handler handler;
    uid_t user = geteuid();                              // the only one that is served
    Duration request_timeout = std::chrono::seconds(5);  // to send a request, and to take an answer
  };

  // Errors: those of ControlSocket::Listen.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(Options options);
  // Waits for running handlers, and removes the socket.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer(Options options, std::unique_ptr<ControlSocket> socket, UniqueFd end);
  void Run();
  void Serve(int connection) const;
  absl::StatusOr<std::string> Answer(int connection) const;

  const Options options_;
  const UniqueFd end_;  // an eventfd that becomes readable when the server ends
  const std::unique_ptr<ControlSocket> socket_;
  std::vector<std::thread> threads_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_CONTROL_CONTROL_SERVER_H_
