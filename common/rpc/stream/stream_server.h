#ifndef COHORT_COMMON_RPC_STREAM_STREAM_SERVER_H_
#define COHORT_COMMON_RPC_STREAM_STREAM_SERVER_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/cluster/security.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/transport_options.h"

namespace cohort {

// Serves bidirectional streams of frames by the name of their method, and gRPC's own health
// service. Each of its `threads` polls one completion queue. A stream stays on the queue that
// accepted it. See stream.h for an example.
//
// If there are control methods, one more thread serves them and the health service, so they are
// answered while handlers keep all other threads busy. It also reads the connections that carry
// their calls, and acknowledges the keep-alives there. Connections are accepted by the other
// threads. Clients of methods whose handlers take long must be patient
// (TransportOptions::AwaitBusyServer).
class StreamServer {
 public:
  struct Options {
    // "host:port" and "unix:/path" are served alike. Port 0: the system chooses. "0.0.0.0:port",
    // "[::]:port": all interfaces. The directory of a path must exist. A socket file without a
    // listener is replaced.
    std::vector<std::string> listen;
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    int threads = 1;
    std::string thread_name = "rpc";
    TransportOptions transport;
    // Names that gRPC health reports as SERVING in addition to the server as a whole (""), such as
    // "cohort.v1.Worker".
    std::vector<std::string> health_services;
    // Methods that a thread of their own serves; their handlers must not take long. Empty: there is
    // no such thread.
    std::vector<std::string> control_methods;
    // Gets the plaintext connections, also those of unix sockets, whose first byte is
    // ConnectionAcceptor::kSocketByte. Their name is not read yet (SocketStream::TakeName). Called
    // on a thread of the server, and must not wait. Null: gRPC gets all plaintext connections.
    std::function<void(UniqueFd connection)> take_socket;
  };
  // By method: "/cohort.v1.ParameterServer/PushPull". Another method gets UNIMPLEMENTED.
  using Methods = std::map<std::string, StreamHandlerFactory>;

  // Listens and serves when this returns. Errors: AlreadyExists (names the taken address),
  // InvalidArgument (not an address, unknown host), FailedPrecondition (plaintext beyond loopback),
  // PermissionDenied (a privileged port), Unavailable.
  static absl::StatusOr<std::unique_ptr<StreamServer>> Start(const Options& options,
                                                             Methods methods);
  // Calls Shutdown(Unavailable).
  ~StreamServer();

  // The port of the first TCP address of `listen`; 0 if there is none.
  int port() const { return port_; }
  // The addresses that the server listens on, with the chosen ports, in the order of `listen`.
  const std::vector<std::string>& addresses() const { return addresses_; }

  // The loops of the threads that serve methods other than those of control. Streams of clients may
  // use them too, until Shutdown.
  std::vector<CompletionLoop*> loops() const;

  // How often each thread has answered a call of this function, which asks it again: a number per
  // thread. That of a thread that hangs does not grow. Not thread-safe.
  std::vector<uint64_t> Turns();

  // Sets the answer of gRPC health from now on. SERVING after Start.
  void SetServing(bool serving);

  // Closes every stream with `status` (OK: a clean close), waits at most `grace` until what is
  // queued is sent, and returns when every handler has had its OnClosed. Not from a handler.
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
