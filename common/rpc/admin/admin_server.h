#ifndef COHORT_COMMON_RPC_ADMIN_ADMIN_SERVER_H_
#define COHORT_COMMON_RPC_ADMIN_ADMIN_SERVER_H_

#include <absl/status/statusor.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace cohort {

// The health and metrics port of a role, over HTTP:
//   /metrics  Prometheus' text format
//   /healthz  200 "ok", or 503 with the reason
//   /readyz   as /healthz, for the readiness of the role
//   /statusz  text for people
//   /status.json  the same for programs, if the role has it
// Other paths get 404, and other methods than GET and HEAD get 405. libmicrohttpd polls the
// connections, so a connection that sends half a request or does not read blocks no other. A
// handler that hangs holds one of four threads, with the connections that this thread has accepted.
//
// It serves plaintext to everyone who reaches the address, also beyond loopback (--admin_bind): a
// kubelet and Prometheus have no certificate of the cluster. Nothing can be changed through it.
//
// On a control socket (control_socket.h) it serves one user, who can also change the job:
//   POST /control/COMMAND  the body is a JSON object or empty, at most 1 MiB. The answer is a JSON
//                          object; an error is {"code": 9, "message": "..."} (absl::StatusCode)
// Each connection has a thread, so a command that takes long blocks no other.
class AdminServer {
 public:
  struct Options {
    // Exactly one of the two is given.
    std::string address;         // "127.0.0.1:9100"; port 0: any
    std::string control_socket;  // a path
    // The text of /metrics, MetricsRegistry::Text. The server adds what the process uses.
    std::function<std::string()> metrics;
    // The callbacks run on the server's threads, so they must be thread-safe. health: "" while the
    // role is healthy, else the reason. Null: always healthy. readiness: "" when the role serves
    // and restores nothing, else the reason; it never waits for other tasks. Null: always ready.
    // status: the text of /statusz.
    std::function<std::string()> health;
    std::function<std::string()> readiness;
    std::function<std::string()> status;
    // The JSON object of /status.json. Null: there is no such page.
    std::function<std::string()> status_json;
    // The answer to a command on the control socket, whose body is `request`. Null: none is taken.
    std::function<absl::StatusOr<std::string>(const std::string& command,
                                              const std::string& request)>
        control;
    uid_t user = geteuid();  // the only one that the control socket serves
    // A connection that neither sends nor reads for this long is closed.
    std::chrono::seconds request_timeout{2};
    unsigned most_connections = 256;  // new connections above this wait until others close
  };

  // Errors: AlreadyExists (names the taken port), InvalidArgument; those of ControlSocket::Listen.
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(Options options);
  // Waits for running handlers, and on a control socket until their answers are sent.
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  int port() const { return port_; }  // 0: a control socket

 private:
  class Impl;
  AdminServer(std::unique_ptr<Impl> impl, int port);

  const std::unique_ptr<Impl> impl_;
  const int port_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ADMIN_ADMIN_SERVER_H_
