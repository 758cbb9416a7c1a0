#ifndef COHORT_COMMON_RPC_ADMIN_ADMIN_SERVER_H_
#define COHORT_COMMON_RPC_ADMIN_ADMIN_SERVER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "common/cluster/security.h"

namespace cohort {

// The health and metrics port of a role, over HTTP:
//   /metrics  Prometheus' text format
//   /healthz  200 "ok" or 503 and why
//   /statusz  text for people
// Anything else is 404; other methods than GET and HEAD are 405. libmicrohttpd polls the
// connections: one that sends half a request, or does not read, keeps no other waiting. An answer
// that hangs holds one of four threads, with what that thread has accepted.
class AdminServer {
 public:
  struct Options {
    std::string address;  // "127.0.0.1:9100"; port 0: any
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    // The text of /metrics: MetricsRegistry::Text.
    std::function<std::string()> metrics;
    // Called on the server's threads, so thread-safe. health: "" while the role is healthy, else
    // why not. Null: always healthy. status: the text of /statusz.
    std::function<std::string()> health;
    std::function<std::string()> status;
    // A connection that says or takes nothing for so long is closed.
    std::chrono::seconds request_timeout{2};
    unsigned most_connections = 256;  // beyond, new ones wait until others are closed
  };

  // Errors: AlreadyExists (names the port that is taken), InvalidArgument, FailedPrecondition
  // (plaintext beyond loopback).
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(Options options);
  // Waits for the answers under way.
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;
  AdminServer& operator=(const AdminServer&) = delete;

  int port() const { return port_; }

 private:
  class Impl;
  AdminServer(std::unique_ptr<Impl> impl, int port);

  const std::unique_ptr<Impl> impl_;
  const int port_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ADMIN_ADMIN_SERVER_H_
