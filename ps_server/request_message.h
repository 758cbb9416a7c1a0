#ifndef COHORT_PS_SERVER_REQUEST_MESSAGE_H_
#define COHORT_PS_SERVER_REQUEST_MESSAGE_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/rpc/push_pull/payload_fields.h"
#include "common/rpc/push_pull/peer_segments.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/tensor/buffer.h"

namespace cohort {

namespace v1 {
class PushPullHeader;
class SharedPayload;
}  // namespace v1

// One message of a request, and where its payloads are. The values of a dense gradient stay where
// they were received or shared. All other payloads must lie in one piece, aligned, and in memory
// that the client cannot write; those that do not are copied, once.
struct RequestMessage {
  // `small`: takes no memory before it needs some.
  RequestMessage(CodecCounters* counters, bool small)
      : counters(counters), decoder(counters, small), fields(small ? 0 : 256) {}

  // Finds the payloads of the message that `decoder` holds; `word` and `segment` are as in
  // PayloadFields::Find. `peers`: the client's own segments that are mapped; may be null. `pool`
  // gives the memory of copies.
  absl::Status ReadPayload(const v1::PushPullHeader& header, const v1::SharedPayload* word,
                           const SharedSegment* segment, PeerSegments* peers, BufferPool* pool);

  // Memory that is kept for the next message, and memory that is taken until the request ends.
  size_t own_bytes() const;
  size_t held_bytes() const;

  CodecCounters* const counters;
  PushPullDecoder decoder;
  PayloadFields fields;                           // without those in `payload`
  std::vector<std::span<const uint8_t>> payload;  // by field: its bytes, if they are in one piece
  BufferRef staging;                              // the bytes that were copied

 private:
  void TakeField(size_t field, bool dense_gradient);
  void CopyFields(BufferPool* pool);

  size_t bytes_to_copy_ = 0;
};

// The messages of one request, whose memory is used again for the next request.
class RequestMessages {
 public:
  explicit RequestMessages(CodecCounters* counters) : counters_(counters) {}

  // Memory for the request's next message.
  RequestMessage* Next();
  // The newest message was added to the request, and more follow. A message without payloads needs
  // no memory any more.
  void KeepNewest();
  // Messages so far.
  size_t count() const { return count_; }
  // Memory that the messages take, except the newest one before KeepNewest.
  size_t kept_bytes() const { return kept_bytes_; }
  // Memory that all messages take.
  size_t held_bytes() const;

  // The request has ended: what gRPC received goes back to gRPC.
  void Clear();
  // Keeps messages with at most `bytes` bytes together. Returns the bytes that are kept.
  size_t Trim(size_t bytes);

 private:
  CodecCounters* const counters_;
  std::vector<std::unique_ptr<RequestMessage>> messages_;
  size_t used_ = 0;   // the first ones are in use
  size_t count_ = 0;  // counts those without payloads too
  size_t kept_bytes_ = 0;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_REQUEST_MESSAGE_H_
