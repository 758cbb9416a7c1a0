#ifndef COHORT_COMMON_RPC_STREAM_STREAM_H_
#define COHORT_COMMON_RPC_STREAM_STREAM_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/cluster/peer_identity.h"
#include "common/rpc/stream/frame.h"

namespace cohort {

class CompletionLoop;

// The other end of a stream.
struct StreamPeer {
  // "ipv4:127.0.0.1:4711" or "unix:/path" at a server; the dialed address at a client.
  std::string address;
  // At a server, with certificates: what the peer's certificate proves. nullopt: a peer of a unix
  // socket, or plaintext. (A client has checked that the server is the task that it dialed.)
  std::optional<PeerIdentity> identity;

  bool uses_unix_socket() const { return address.starts_with("unix:"); }
};

// One end of a long-lived bidirectional stream of frames. Client and server use the same class.
//
// Send never blocks. Frames queue, and one write is in flight at a time; the caller's thread starts
// it if none is. The calls of the handler come one after another, on the thread that polls the
// stream's CompletionLoop. A handler does small work right there. All methods are thread-safe, and
// do nothing after the end.
//
// An echo, both ends:
//
//   class Echo : public StreamHandler {                       // the server's end
//    public:
//     explicit Echo(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
//     void OnFrame(Frame frame) override { stream_->Send(std::move(frame)); }
//     void OnClosed(const absl::Status&) override {}
//    private:
//     std::shared_ptr<Stream> stream_;
//   };
//   StreamServer::Options options;
//   options.listen = {"127.0.0.1:0", "unix:/run/cohort/ps-0.sock"};
//   auto server = StreamServer::Start(options, {{"/cohort.v1.ParameterServer/PushPull",
//       [](std::shared_ptr<Stream> stream, CompletionLoop*) {
//         return std::make_unique<Echo>(std::move(stream)); }}});
//
//   CompletionLoop loop;                                      // the client's end, polled here
//   auto client = StreamClient::Create(fmt::format("127.0.0.1:{}", (*server)->port()), {});
//   MyHandler handler;                                        // outlives its OnClosed
//   auto stream = (*client)->Open("/cohort.v1.ParameterServer/PushPull", &handler, &loop);
//   stream->Send(SerializeToFrame(message));
//   loop.RunUntil([&] { return handler.answered; }, deadline);
class Stream {
 public:
  virtual ~Stream() = default;
  // Queues a frame. Ignored after Close or after the peer is gone.
  virtual void Send(Frame frame) = 0;
  // Bytes that are queued and not yet passed to gRPC.
  virtual size_t queued_bytes() const = 0;
  // Bytes of frames that the transport has taken, and of frames that were received; both only grow.
  // Only the polling thread may ask. A stream that does not count them returns zeros.
  struct Moved {
    uint64_t sent = 0;
    uint64_t received = 0;
  };
  virtual Moved moved() const { return {}; }
  // Sends what is queued, then ends the stream. OK is a clean close: the OnClosed of the peer gets
  // OK. From a server, another status arrives at the client as it is, with its FailureInfo. A
  // client can only cancel: frames may be lost, and the OnClosed of the server gets Unavailable. A
  // client that closes cleanly still receives frames until the server has ended its side. A
  // StreamServer does that at once, after sending what is queued.
  virtual void Close(absl::Status status) = 0;
  // Ends the stream at once and drops what is queued. The OnClosed of the peer gets Unavailable or
  // Cancelled.
  virtual void Abort() = 0;
  virtual StreamPeer peer() const = 0;
  // At a server: OK if the peer may say that it is this task. Otherwise its certificate is that of
  // another one; the refusal has been counted and logged. Errors: PermissionDenied.
  virtual absl::Status CheckClaim(Task claimed) const { return absl::OkStatus(); }
  // At a server: the metadata that the client sent under this key when it opened the stream; "" if
  // none.
  virtual std::string metadata(const std::string& key) const { return ""; }
};

class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // At a client: the stream has reached its server. Frames may be sent before. Not called at a
  // server.
  virtual void OnConnected() {}
  virtual void OnFrame(Frame frame) = 0;
  // At a server: true if this end joins pieces (frame_pieces.h), and cuts long frames, for clients
  // that do so too (StreamClient::OpenOptions::joins_pieces). Asked once, before the first frame.
  virtual bool JoinsPieces() const { return false; }
  // Called after OnFrame. True if the peer may send again before this end has sent something. False
  // delays the next read until the next Send, so that the flow-control update of the read travels
  // with that frame. Until then the end of the stream goes unnoticed. False is only allowed for a
  // stream whose frames are all sent by the polling thread.
  virtual bool ExpectsMore() { return true; }
  // At a server: the client will send no more, but still reads. True ends the stream after sending
  // what is queued. False leaves it open until Close, for answers that come later.
  virtual bool OnPeerHalfClosed() { return true; }
  // The last call; comes exactly once. OK if either side closed cleanly, or the status with which
  // the server closed. Otherwise why the stream ended: Unavailable (the connection was lost or
  // could not be made), Cancelled (Abort was called here), DeadlineExceeded (not connected in
  // time), Unimplemented (no such method), ResourceExhausted (a frame or the queue exceeded its
  // limit).
  virtual void OnClosed(const absl::Status& status) = 0;
};

// Creates the handler of a stream that a client has opened. The stream owns the handler and
// destroys it after OnClosed. Runs on the loop's thread. Null refuses the stream: the client gets
// Unavailable.
using StreamHandlerFactory = std::function<std::unique_ptr<StreamHandler>(
    std::shared_ptr<Stream> stream, CompletionLoop* loop)>;

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_STREAM_H_
