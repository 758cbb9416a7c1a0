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
// Sizes come from what went over the connection before. Allocates only when it makes a segment.
class SharedPayloadClient {
 public:
  // A smaller payload goes through the socket: there is little to gain.
  static constexpr size_t kLeastBytes = 16 << 10;
  // Larger requests and answers go in chunks through the socket.
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // Begins a request. `bytes`: what its payloads take, each rounded up to
  // SharedSegment::kAlignment. Returns whether Place is to be called for each message; else the
  // payloads travel.
  bool BeginRequest(size_t bytes);
  // Copies the next message's payloads to the segment. Returns their description, valid until the
  // next call.
  const v1::SharedPayload* Place(std::span<const Bytes> payload);
  // The description of the segment for a message whose payloads travel; null: there is none.
  const v1::SharedPayload* Offer();

  // Takes what a response says about shared memory. Returns the segment that it means, or null if
  // that was given up, and with it the request that the response answers.
  const SharedSegment* OnResponse(const v1::SharedPayload& word);
  // The whole answer of a request has come, with payloads of so many bytes, rounded up as above.
  void OnAnswered(size_t payload_bytes);

 private:
  void MakeSegment();

  std::unique_ptr<SharedSegment> segment_;  // null: there is none
  bool accepted_ = false;                   // by the server
  bool refused_ = false;  // the server has answered an offer without a word: it does not share
  int unanswered_ = 0;    // requests
  size_t answer_begin_ = 0;
  size_t next_ = 0;  // where the next payload goes
  size_t most_sent_ = 0;
  size_t most_received_ = 0;
  v1::SharedPayload word_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_
