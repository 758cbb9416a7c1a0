#ifndef COHORT_COMMON_RPC_ADMIN_SERVER_H_
#define COHORT_COMMON_RPC_ADMIN_SERVER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace cohort {

// The health and metrics port of a role, over HTTP:
//   /metrics  Prometheus' text format
//   /healthz  200 "ok" or 503 and why
//   /statusz  text for people
// Anything else is 404; other methods than GET and HEAD are 405.
class AdminServer {
 public:
  struct Options {
    std::string address;                                // "127.0.0.1:9100"; port 0: any
    bool allow_insecure = false;                        // plaintext beyond loopback
    std::shared_ptr<prometheus::Collectable> registry;  // of /metrics
    // The text of /metrics where there is no `registry`: MetricsRegistry::Text.
    std::function<std::string()> metrics;
    // Called on the server's threads, so thread-safe. health: "" while the role is healthy, else
    // why not. Null: always healthy. status: the text of /statusz.
    std::function<std::string()> health;
    std::function<std::string()> status;
    // For a request to come and for its reply to be taken; then the connection is closed, so that
    // those that say nothing keep the threads from others only for so long.
    std::chrono::milliseconds request_timeout{2000};
  };

  // Errors: AlreadyExists (names the port that is taken), InvalidArgument, FailedPrecondition
  // (plaintext beyond loopback).
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(Options options);
  // Waits for requests under way.
  ~AdminServer();

  int port() const { return port_; }

 private:
  class Impl;
  AdminServer(std::unique_ptr<Impl> impl, int port);

  std::unique_ptr<Impl> impl_;
  int port_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ADMIN_SERVER_H_
