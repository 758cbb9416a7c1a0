#ifndef COHORT_COMMON_RPC_STREAM_STREAM_SERVER_H_
#define COHORT_COMMON_RPC_STREAM_STREAM_SERVER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/transport_options.h"

namespace cohort {

// Serves bidirectional streams of frames, by the name of their method, and gRPC's own health
// service. Each of its `threads` polls one completion queue; a stream stays on the queue that
// accepted it. See stream.h for an example.
//
// If there are control methods, one more thread serves them and the health service, so they are
// answered while handlers keep all other threads busy. Connections are accepted and read by those
// other threads. If a handler keeps one of them for longer than help_interval, the control thread
// reads its sockets: it acknowledges keep-alives, and keeps the frames for the busy thread.
class StreamServer {
 public:
  struct Options {
    // "host:port" (port 0: any; "0.0.0.0:port", "[::]:port": all interfaces) and "unix:/path",
    // served alike. A path's directory must exist; a socket file that nobody listens on is
    // replaced.
    std::vector<std::string> listen;
    bool allow_insecure = false;  // plaintext beyond loopback
    int threads = 1;
    std::string thread_name = "rpc";
    TransportOptions transport;
    // What gRPC health reports as SERVING besides the server as a whole (""): "cohort.v1.Worker".
    std::vector<std::string> health_services;
    // Methods that a thread of their own serves; their handlers must not take long. Empty: there is
    // no such thread.
    std::vector<std::string> control_methods;
    std::chrono::milliseconds help_interval{1000};
  };
  // By method: "/cohort.v1.ParameterServer/PushPull". Another method is answered with
  // UNIMPLEMENTED.
  using Methods = std::map<std::string, StreamHandlerFactory>;

  // Listens and serves when this returns. Errors: AlreadyExists (names the address that is taken),
  // InvalidArgument (not an address, unknown host), FailedPrecondition (plaintext beyond loopback),
  // PermissionDenied (a privileged port), Unavailable.
  static absl::StatusOr<std::unique_ptr<StreamServer>> Start(const Options& options,
                                                             Methods methods);
  // As Shutdown(Unavailable).
  ~StreamServer();

  // The port of the first TCP address of `listen`; 0 where there is none.
  int port() const { return port_; }
  // The addresses listened on, with the ports that were chosen, in the order of `listen`.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // What gRPC health answers from now on. SERVING after Start.
  void SetServing(bool serving);

  // Closes every stream with `status` (OK: a clean close), waits at most `grace` for what is queued
  // to leave, and returns when every handler has had its OnClosed. Not from inside a handler.
  // Idempotent.
  void Shutdown(absl::Status status, std::chrono::milliseconds grace);

 private:
  class Impl;
  explicit StreamServer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
  int port_ = 0;
  std::vector<std::string> addresses_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_STREAM_SERVER_H_
