#ifndef COHORT_COMMON_RPC_STREAM_STREAM_CLIENT_H_
#define COHORT_COMMON_RPC_STREAM_STREAM_CLIENT_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/cluster/security.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/transport_options.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace cohort {

// One connection to a server. The first stream connects, and a later stream reconnects after a
// loss. Each StreamClient has its own socket. Streams outlive their client. If certificates have
// changed, the next stream makes a connection of its own with the new ones. See stream.h for an
// example.
class StreamClient {
 public:
  struct Options {
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    TransportOptions transport;
    // The task at the address. With certificates, the server must be this task.
    std::optional<Task> task;
    // Over a unix socket: bytes that the socket takes before the server has read, as far as the
    // system allows it. Create connects then, and the client has only this connection. 0: what the
    // system usually takes, some 200 KB.
    int send_buffer_bytes = 0;
  };
  struct OpenOptions {
    // False: OnClosed(Unavailable) as soon as an attempt to connect fails. True: wait for the
    // server to appear.
    bool wait_for_ready = true;
    // With wait_for_ready: OnClosed(DeadlineExceeded) if there is no connection after this time.
    // 0: no limit.
    std::chrono::milliseconds connect_timeout{0};
    // Cuts long frames, and joins the pieces of those that come, if the server does so too: from
    // the first frame of the server on (frame_pieces.h).
    bool joins_pieces = false;
    // Metadata for the server, by key (lower case): see Stream::metadata.
    std::map<std::string, std::string> metadata;
  };

  // `address`: "host:port", "[::1]:port" or "unix:/path". Does not connect yet.
  // Errors: InvalidArgument (not an address), FailedPrecondition (plaintext beyond loopback);
  // Unavailable with send_buffer_bytes.
  static absl::StatusOr<std::unique_ptr<StreamClient>> Create(std::string address,
                                                              const Options& options);
  ~StreamClient();

  // Opens a stream of `method` ("/package.Service/Method"). Never null. `handler` must live until
  // its OnClosed has returned, which is called even if nothing was ever connected. Its calls come
  // on the thread that polls `loop`. If the Shutdown of the loop has begun, OnClosed is called
  // right here.
  std::shared_ptr<Stream> Open(const std::string& method, StreamHandler* handler,
                               CompletionLoop* loop, const OpenOptions& open_options);
  std::shared_ptr<Stream> Open(const std::string& method, StreamHandler* handler,
                               CompletionLoop* loop) {
    return Open(method, handler, loop, OpenOptions());
  }

  const std::string& address() const { return address_; }

 private:
  StreamClient(std::string address, const Options& options)
      : address_(std::move(address)), options_(options) {}
  // The channel for the next stream. Errors: those of ChannelCredentialsFor; Unavailable.
  absl::Status Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::shared_ptr<grpc::Channel> Channel();

  const std::string address_;
  const Options options_;
  Mutex mu_;
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mu_);
  uint64_t material_ ABSL_GUARDED_BY(mu_) = 0;  // TlsMaterial::version of the channel
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_STREAM_CLIENT_H_
