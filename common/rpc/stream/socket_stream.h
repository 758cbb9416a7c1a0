#ifndef COHORT_COMMON_RPC_STREAM_SOCKET_STREAM_H_
#define COHORT_COMMON_RPC_STREAM_SOCKET_STREAM_H_

#include <absl/status/status.h>
#include <netdb.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/rpc/stream/socket_loop.h"
#include "common/rpc/stream/stream.h"

namespace cohort {

class Security;

// One end of a stream of frames over a plaintext socket, for large frames that should be copied as
// seldom as possible. The accepting end sends frames; the dialing end reads them. A frame is
// written from where its slices lie, and received into one block of memory.
//
// The bytes on the socket:
//
//   dialing end     'F' (ConnectionAcceptor::kSocketByte), uint8 length, Security::secret_token,
//                   uint8 length, name
//   accepting end   { head, frame } ..., head with kEnd, StatusProto
//   head            uint32 length of the frame | kEnd, uint32 CRC32C of the frame
//
// TCP's own checksum misses one damaged segment in 65,536, and a damaged gradient would be in all
// weights. A frame that is not what was sent ends the stream like a lost connection.
//
// All numbers are little-endian. The dialing end shuts its side down when it wants to close. The
// accepting end then sends what is queued and ends with OK. An end without a StatusProto is a lost
// connection.
//
// It keeps the promises of Stream, with one exception: it belongs to the thread of its SocketLoop.
// OnClosed comes from the loop's poll. A peer that sends nothing is probed by TCP.
class SocketStream final : public Stream, public std::enable_shared_from_this<SocketStream> {
 public:
  static constexpr uint32_t kEnd = uint32_t{1} << 31;

  // What the dialing end says about itself. Each has at most 255 bytes.
  struct Hello {
    std::string name;   // for the other end
    std::string token;  // Security::secret_token
  };

  // The dialing end. `address`: "host:port" or "unix:/path"; a name is resolved before this
  // returns. `handler` gets an OnClosed in any case, Unavailable if the other end was not reached.
  static std::shared_ptr<SocketStream> Dial(SocketLoop* loop, const std::string& address,
                                            const Hello& hello, StreamHandler* handler);
  // The accepting end, after TakeName. Call Serve or Close next.
  static std::shared_ptr<SocketStream> Accept(SocketLoop* loop, UniqueFd connection);
  void Serve(std::unique_ptr<StreamHandler> handler);

  // Reads what the dialing end has sent up to its name, without waiting. Returns false, and has
  // ended the connection with a reason, if the token is not that of `security`.
  static bool Admit(const Security& security, UniqueFd* connection);
  // Then reads the name. Does not wait. nullopt: it is not there.
  static std::optional<std::string> TakeName(const UniqueFd& connection);
  // Ends a connection that no loop serves.
  static void Refuse(UniqueFd connection, const absl::Status& status);

  void Send(Frame frame) override;
  size_t queued_bytes() const override { return queued_bytes_; }
  void Close(absl::Status status) override;
  void Abort() override;
  StreamPeer peer() const override { return {.address = address_, .identity = std::nullopt}; }

 private:
  friend class SocketLoop;
  struct Head {
    uint32_t word;  // length | kEnd
    uint32_t crc;
  };
  using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

  SocketStream(SocketLoop* loop, bool dialed) : loop_(loop), dialed_(dialed) {}

  // From the loop.
  void OnReady(uint32_t events);
  void DeliverEnd();

  void Connect(absl::Status last_error);
  void ConnectTo(int family, const sockaddr* address, socklen_t size);
  void FinishConnect();
  void Queue(const Frame& frame, uint32_t flags);
  void Flush();
  size_t GatherPending(std::array<iovec, 64>* to) const;
  void DropSent(size_t bytes);
  void UpdateEvents();
  void Read();
  void ReadFrames();
  void UseStage();
  void TakeBody(size_t bytes);
  bool BeginFrame(const Head& head);
  void FinishFrame();
  void AwaitPeerEnd();
  void End(absl::Status status);

  SocketLoop* const loop_;
  const bool dialed_;
  std::string address_;
  AddressList resolved_{nullptr, freeaddrinfo};
  addrinfo* next_address_ = nullptr;  // that is tried if this one fails
  UniqueFd fd_;
  StreamHandler* handler_ = nullptr;
  std::unique_ptr<StreamHandler> owned_handler_;
  uint32_t events_ = 0;  // that epoll waits for
  bool connecting_ = false;
  bool closing_ = false;     // Close was called
  bool peer_ended_ = false;  // accepting end: nothing is to be read
  bool shut_down_ = false;   // dialing end: its side is shut down
  bool ended_ = false;
  absl::Status end_status_;

  // What is to be written.
  std::vector<grpc::Slice> pending_;
  size_t first_pending_ = 0;
  size_t first_offset_ = 0;  // in the first one
  size_t queued_bytes_ = 0;
  std::vector<grpc::Slice> slices_;

  // What was read. A frame that has begun goes to its own memory. Behind it, and between frames,
  // bytes go to the stage.
  std::array<uint8_t, 4096> stage_;
  size_t stage_begin_ = 0;
  size_t stage_end_ = 0;
  bool in_frame_ = false;
  bool is_end_ = false;     // the frame is the StatusProto
  uint32_t frame_crc_ = 0;  // that the frame should have
  uint32_t body_crc_ = 0;   // that the filled part has
  grpc::Slice body_;
  size_t body_filled_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_SOCKET_STREAM_H_
