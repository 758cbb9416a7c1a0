#include "common/collective/peer_transport.h"

#include <map>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream_client.h"
#include "common/rpc/stream/transport_options.h"

namespace cohort {
namespace {

// Measured with all-reduces over loopback (tests/benchmarks/RESULTS.md): the peer may fill the socket
// while this rank sums, and what was read stays in a core's cache until it is summed.
constexpr int kReadAheadBytes = 4 << 20;
constexpr int kHttp2FrameBytes = 1 << 20;
constexpr int kReadBufferBytes = 128 << 10;

class GrpcPeerTransport final : public PeerTransport {
 public:
  GrpcPeerTransport(std::shared_ptr<const Security> security, bool own_core) {
    LetTransportThreadsWrite();
    options_.security = std::move(security);
    options_.transport.SetOwnCore(own_core);
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

}  // namespace

std::unique_ptr<PeerTransport> MakeGrpcPeerTransport(std::shared_ptr<const Security> security,
                                                     bool own_core) {
  return std::make_unique<GrpcPeerTransport>(std::move(security), own_core);
}

}  // namespace cohort
