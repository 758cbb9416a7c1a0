#ifndef COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_
#define COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/exchange/exchange_message.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

// The client's end of proto/shared_payload.proto, for one connection over a unix socket.
//
//   nothing ──► offered ──► used
//      ▲                      │     a request that does not fit, or that follows an unanswered
//      └──────────────────────┘     one, gets a new segment
//
// The sizes of earlier requests and answers decide the size of a segment. Allocates only when it
// creates a segment.
class SharedPayloadClient {
 public:
  // A smaller payload goes through the socket: shared memory would save little.
  static constexpr size_t kLeastBytes = 16 << 10;
  // Larger requests and answers go in chunks through the socket.
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // Begins a request. `bytes`: what its payloads take, each rounded up to
  // SharedSegment::kAlignment. Returns true if the caller must call Place for each message; else
  // the payloads go through the socket.
  bool BeginRequest(size_t bytes);
  // Copies the next message's payloads to the segment. Returns their description, valid until the
  // next call.
  const v1::SharedPayload* Place(std::span<const Bytes> payload);
  // The description of the segment for a message whose payloads go through the socket; null: there
  // is none.
  const v1::SharedPayload* Offer();

  // Handles what a response says about shared memory. Returns the segment that it names, or null if
  // the client has given up that segment, and with it the request that the response answers.
  const SharedSegment* OnResponse(const v1::SharedPayload& word);
  // The whole answer to a request has come; its payloads take `payload_bytes`, rounded up as above.
  void OnAnswered(size_t payload_bytes);

 private:
  void MakeSegment();

  std::unique_ptr<SharedSegment> segment_;  // null: there is none
  bool accepted_ = false;                   // the server has mapped it
  bool refused_ = false;  // the server's answer to an offer did not mention it: it does not share
  int unanswered_ = 0;    // requests
  size_t answer_begin_ = 0;
  size_t next_ = 0;  // where the next payload goes
  size_t most_sent_ = 0;
  size_t most_received_ = 0;
  v1::SharedPayload word_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_
