#ifndef COHORT_COMMON_RPC_STREAM_STREAM_CLIENT_H_
#define COHORT_COMMON_RPC_STREAM_STREAM_CLIENT_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "common/cluster/security.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/transport_options.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace cohort {

// One connection to a server, made when a stream first wants it and made again when it is lost.
// Each StreamClient has its own socket. Streams live on when their client is gone. See stream.h for
// an example.
class StreamClient {
 public:
  struct Options {
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    TransportOptions transport;
  };
  struct OpenOptions {
    // False: OnClosed(Unavailable) as soon as an attempt to connect fails. True: wait for the
    // server to appear.
    bool wait_for_ready = true;
    // With wait_for_ready: OnClosed(DeadlineExceeded) when there is no connection by then. 0: wait
    // as long as it takes.
    std::chrono::milliseconds connect_timeout{0};
    // What the server is told first, by key (lower case): see Stream::metadata.
    std::map<std::string, std::string> metadata;
  };

  // `address`: "host:port", "[::1]:port" or "unix:/path". Does not connect yet.
  // Errors: InvalidArgument (not an address), FailedPrecondition (plaintext beyond loopback).
  static absl::StatusOr<std::unique_ptr<StreamClient>> Create(std::string address,
                                                              const Options& options);
  ~StreamClient();

  // Opens a stream of `method` ("/package.Service/Method"), never null. `handler` must live until
  // its OnClosed has returned, which comes even where nothing was ever connected; its calls come on
  // the thread that polls `loop` (where its Shutdown has begun: OnClosed right here).
  std::shared_ptr<Stream> Open(const std::string& method, StreamHandler* handler,
                               CompletionLoop* loop, const OpenOptions& open_options);
  std::shared_ptr<Stream> Open(const std::string& method, StreamHandler* handler,
                               CompletionLoop* loop) {
    return Open(method, handler, loop, OpenOptions());
  }

  const std::string& address() const { return address_; }

 private:
  StreamClient(std::string address, const Options& options, std::shared_ptr<grpc::Channel> channel);

  const std::string address_;
  const Options options_;
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_STREAM_CLIENT_H_
