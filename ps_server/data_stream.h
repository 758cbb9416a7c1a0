#ifndef COHORT_PS_SERVER_DATA_STREAM_H_
#define COHORT_PS_SERVER_DATA_STREAM_H_

#include <google/protobuf/arena.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "common/rpc/stream/stream.h"
#include "proto/shared_payload.pb.h"
#include "ps_server/data_path.h"
#include "ps_server/held_bytes.h"
#include "ps_server/request_assembler.h"

namespace cohort {

class PsCore;

namespace v1 {
class PushPullHeader;
class PushPullResponseHeader;
}  // namespace v1

// One client's PushPull stream: frames to requests, requests to the data path, answers to frames.
// All calls come on one thread. Memory is used again from request to request: headers lie in an
// arena, the payload in what gRPC has received. A dense gradient is read from there where it is
// applied; what must lie in one piece and aligned (keys, rows) is copied, once. What a request of
// several messages holds until its last one comes is counted, this stream's and that of all, and so
// is what the stream keeps for its next request, where that is more than usual ones need.
class DataStream : public StreamHandler {
 public:
  // All outlive the stream.
  DataStream(PsCore* core, CodecCounters* counters, size_t max_request_bytes, HeldBytes* held,
             std::shared_ptr<Stream> stream);
  ~DataStream() override;

  void OnFrame(Frame frame) override;
  void OnClosed(const absl::Status&) override;

 private:
  using Bytes = std::span<const uint8_t>;
  // One message of a request, and where its payloads are.
  struct Message {
    Message(CodecCounters* counters, bool small) : decoder(counters, small) {
      if (!small) pieces.reserve(256);
    }
    // What is kept with it for the next one, and what besides until the request ends.
    size_t own_bytes() const;
    size_t held_bytes() const;
    PushPullDecoder decoder;
    BufferRef staging;
    std::vector<Bytes> payload;
    std::vector<Bytes> pieces;                      // of all payloads that come in pieces
    std::vector<size_t> piece_counts;               // by payload; 0: it is in `payload`
    std::vector<std::span<const Bytes>> pieces_of;  // by payload
  };

  Message* NextMessage();
  absl::Status Add(Message* message);
  absl::Status KeepPart(Message* message);
  absl::Status ReadSharedWord(Message* message);
  absl::Status FindSharedPayload(Message* message);
  void FindPayload(Message* message);
  void MarkDenseGradients(size_t payloads);
  void CopyWhatMustBeInOnePiece(Message* message, size_t bytes);
  void Execute(const RequestView& request);
  void Send(const v1::PushPullResponseHeader& header, std::span<PayloadSlice> payload);
  bool PlaceAnswer(std::span<PayloadSlice> payload);
  void Refuse(const absl::Status& status);
  void EndRequest();
  void KeepForNext();
  void GiveBack();
  size_t Trim(size_t message_bytes, size_t entries);
  void ResetHeaders();

  PsCore* const core_;
  CodecCounters* const counters_;
  const size_t max_request_bytes_;
  const std::shared_ptr<Stream> stream_;
  PushPullEncoder encoder_;
  const std::unique_ptr<char[]> arena_memory_;
  google::protobuf::Arena arena_;
  // In the arena.
  v1::PushPullHeader* request_header_ = nullptr;
  v1::PushPullResponseHeader* response_header_ = nullptr;
  RequestAssembler assembler_;
  // The first used_ are of the request that is being received: of its messages so far, those that
  // have payloads, and the one at hand.
  std::vector<std::unique_ptr<Message>> messages_;
  size_t used_ = 0;
  size_t parts_ = 0;          // messages of the request so far
  size_t request_bytes_ = 0;  // of its payload
  size_t kept_bytes_ = 0;     // that its messages but the one at hand take
  HeldBytes::Share held_;
  // Memory shared with the client, where it has offered some and both are on one host.
  const bool on_unix_socket_;
  std::unique_ptr<SharedSegment> segment_;
  v1::SharedPayload* word_ = nullptr;  // of the message at hand, in the arena; null: none
  v1::SharedPayload answer_word_;
  uint64_t answer_next_ = 0;  // where in the segment the next value of the answer may go
  uint64_t answer_end_ = 0;
  std::vector<bool> dense_gradients_;  // by payload of the message at hand
  DataPathScratch scratch_;
  std::vector<PayloadSlice> payload_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_DATA_STREAM_H_
