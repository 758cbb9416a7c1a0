#ifndef COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_CONNECTION_H_
#define COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_CONNECTION_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "common/exchange/exchange_message.h"
#include "common/exchange/exchange_routes.h"
#include "common/exchange/request_watch.h"
#include "common/exchange/shared_payload_client.h"
#include "common/rpc/push_pull/payload_fields.h"
#include "common/rpc/push_pull/peer_segments.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/completion_loop.h"
#include "common/rpc/stream/stream.h"
#include "common/rpc/stream/stream_client.h"

namespace cohort {

// One PushPull stream to one parameter server, from its opening to its end. It belongs to the
// thread that polls the loop.
class PsConnection : public StreamHandler {
 public:
  struct Callbacks {
    // `lent` as in Exchange::OnResponse.
    std::function<void(PsConnection*, const v1::PushPullResponseHeader&,
                       std::span<const PayloadPieces>, std::span<const uint8_t> lent)>
        on_response;
    // Once, if the server's memory, or this process's memory there, cannot be mapped.
    std::function<void(PsConnection*, const absl::Status&)> on_not_shared;
    std::function<void(PsConnection*, const absl::Status&)> on_closed;  // the last call
  };

  // The address to dial for a route: its unix socket if `host_id` is the route's and the socket
  // exists, else its TCP address.
  static std::string ChooseAddress(const ServerRoute& route, const std::string& host_id,
                                   bool avoid_unix);

  // How values are read where the server has them; used only over a unix socket.
  struct Sharing {
    uint64_t client = 0;              // SharedPayload.client
    PeerSegments* weights = nullptr;  // those of this server; outlives the connection
    PushAreas* areas = nullptr;       // those of this process; outlives the connection
  };

  // `incarnation`: the one of the intended server; a server with another one refuses the stream.
  // 0: unknown.
  PsConnection(uint32_t ps, uint64_t incarnation, std::string address, const Sharing& sharing,
               Callbacks callbacks, CodecCounters* counters);

  // Opens the stream. Error: InvalidArgument for an address that cannot be dialled; then on_closed
  // is not called.
  absl::Status Open(const StreamClient::Options& options, CompletionLoop* loop);

  void Send(std::span<const ExchangeMessage> messages, PushPullEncoder* encoder, PayloadLoan* loan);
  // Aborts the stream. Only on_closed is called from now on.
  void Abandon();

  uint32_t ps() const { return ps_; }
  const std::string& address() const { return address_; }
  bool on_unix_socket() const { return address_.starts_with("unix:"); }
  // True if this is a unix socket from which no answer has ever come: another process, or one that
  // hangs, may listen on its path.
  bool is_mute_socket() const { return on_unix_socket() && !answered_; }
  // Since the last Send.
  BytesMoved moved() const;

  void OnFrame(Frame frame) override;
  bool ExpectsMore() override { return unanswered_ > 0; }
  void OnClosed(const absl::Status& status) override;

 private:
  bool FindFields();
  void ReportNotShared(const absl::Status& why);
  void AddMapped(std::span<const ExchangeMessage> messages, v1::SharedPayload* word);

  CodecCounters* const counters_;
  const uint32_t ps_;
  const uint64_t incarnation_;
  const std::string address_;
  const Sharing sharing_;
  const Callbacks callbacks_;
  std::unique_ptr<StreamClient> client_;
  std::shared_ptr<Stream> stream_;
  bool abandoned_ = false;
  bool answered_ = false;
  uint64_t unanswered_ = 0;     // requests
  Stream::Moved moved_before_;  // the last Send
  // Decodes the current response; kept, so that reading allocates nothing.
  PushPullDecoder decoder_;
  v1::PushPullResponseHeader header_;
  PayloadFields fields_;
  // For payloads in shared memory; used only over a unix socket.
  SharedPayloadClient shared_;
  v1::SharedPayload word_;
  bool reported_ = false;     // on_not_shared was called
  bool mapped_more_ = false;  // by the response so far
  size_t answer_bytes_ = 0;   // copied payload of the response so far, rounded up to kAlignment
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_REMOTE_ACCESS_CONNECTION_H_
