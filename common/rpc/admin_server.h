#ifndef COHORT_COMMON_RPC_ADMIN_SERVER_H_
#define COHORT_COMMON_RPC_ADMIN_SERVER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace cohort {

class HttpPort;

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
    // Called on the server's thread, so thread-safe. health: "" while the role is healthy, else
    // why not. Null: always healthy. status: the text of /statusz.
    std::function<std::string()> health;
    std::function<std::string()> status;
    // For a request to come, and for its reply to be taken; then the connection is closed. Those
    // that say nothing keep nobody waiting: the oldest goes where there are too many.
    std::chrono::milliseconds request_timeout{2000};
    size_t most_connections = 128;
  };

  // Errors: AlreadyExists (names the port that is taken), InvalidArgument, FailedPrecondition
  // (plaintext beyond loopback).
  static absl::StatusOr<std::unique_ptr<AdminServer>> Start(Options options);
  // Waits for the answer under way.
  ~AdminServer();

  int port() const;

 private:
  explicit AdminServer(std::unique_ptr<HttpPort> port);

  const std::unique_ptr<HttpPort> port_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_ADMIN_SERVER_H_
