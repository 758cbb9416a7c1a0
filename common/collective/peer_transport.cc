#include "common/collective/peer_transport.h"

#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/socket_loop.h"
#include "common/rpc/stream/socket_stream.h"
#include "common/rpc/stream/stream_client.h"
#include "common/rpc/stream/transport_options.h"

namespace cohort {
namespace {

// Measured over loopback: the peer may fill the socket while this rank sums, and what was read
// stays in a core's cache until it is summed.
constexpr int kReadAheadBytes = 4 << 20;
constexpr int kHttp2FrameBytes = 1 << 20;
constexpr int kReadBufferBytes = 128 << 10;

class GrpcPeerTransport final : public PeerTransport {
 public:
  explicit GrpcPeerTransport(std::shared_ptr<const Security> security) {
    options_.security = std::move(security);
    options_.transport.read_ahead_bytes = kReadAheadBytes;
    options_.transport.http2_frame_bytes = kHttp2FrameBytes;
    options_.transport.read_buffer_bytes = kReadBufferBytes;
  }

  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  bool Poll(TimePoint deadline) override { return loop_.PollOnce(deadline); }
  void Wake() override { loop_.Wake(); }

  absl::Status Prepare(int rank, int worker, const std::string& address) override {
    options_.task = Task{Role::kWorker, worker};
    COHORT_ASSIGN_OR_RETURN(clients_[rank], StreamClient::Create(address, options_));
    return absl::OkStatus();
  }

  std::shared_ptr<Stream> Dial(int rank, const PeerStreamName& name,
                               StreamHandler* handler) override {
    StreamClient::OpenOptions open;
    open.wait_for_ready = false;
    open.metadata[PeerStreamName::kKey] = name.ToString();
    return clients_.at(rank)->Open(PeerService::kMethod, handler, &loop_, open);
  }

  void Shutdown() override { loop_.Shutdown(); }

 private:
  StreamClient::Options options_;
  CompletionLoop loop_;
  std::map<int, std::unique_ptr<StreamClient>> clients_;
};

// Frames go from the caller's buffers to the socket. The thread of the group reads and writes all.
class SocketPeerTransport final : public PeerTransport {
 public:
  explicit SocketPeerTransport(std::shared_ptr<const Security> security)
      : security_(std::move(security)) {}

  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  bool Poll(TimePoint deadline) override { return loop_.PollOnce(deadline); }
  void Wake() override { loop_.Wake(); }

  absl::Status Prepare(int rank, int /*worker*/, const std::string& address) override {
    if (!address.starts_with("unix:")) {
      COHORT_RETURN_IF_ERROR(Annotate(ParseAddress(address).status(), "dialing"));
    }
    COHORT_RETURN_IF_ERROR(security_->CheckDial(address));
    addresses_[rank] = address;
    return absl::OkStatus();
  }

  std::shared_ptr<Stream> Dial(int rank, const PeerStreamName& name,
                               StreamHandler* handler) override {
    return SocketStream::Dial(&loop_, addresses_.at(rank),
                              {.name = name.ToString(), .token = security_->secret_token()},
                              handler);
  }

  std::shared_ptr<SocketStream> Accept(UniqueFd connection) override {
    return SocketStream::Accept(&loop_, std::move(connection));
  }

  bool WritesInPoll() const override { return true; }
  void Shutdown() override { loop_.Shutdown(); }

 private:
  const std::shared_ptr<const Security> security_;
  SocketLoop loop_;
  std::map<int, std::string> addresses_;  // by rank
};

}  // namespace

std::unique_ptr<PeerTransport> MakePeerTransport(std::shared_ptr<const Security> security) {
  if (security->has_certificates()) return MakeGrpcPeerTransport(std::move(security));
  return std::make_unique<SocketPeerTransport>(std::move(security));
}

std::unique_ptr<PeerTransport> MakeGrpcPeerTransport(std::shared_ptr<const Security> security) {
  return std::make_unique<GrpcPeerTransport>(std::move(security));
}

}  // namespace cohort
