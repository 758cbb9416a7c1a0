#ifndef COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_
#define COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/exchange/exchange_message.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

// The client's end of proto/shared_payload.proto, for one connection over a unix socket.
//
//   nothing ──► offered ──► used            a request that does not fit, or one that follows an
//      ▲                      │             unanswered one, gets a new segment
//      └──────────────────────┘
//
// Sizes come from what went over the connection before. Allocates only when it makes a segment.
class SharedPayloadClient {
 public:
  // Below it a payload goes through the socket: there is little to gain.
  static constexpr size_t kLeastBytes = 16 << 10;
  // Larger requests and answers go in chunks through the socket.
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // Before a request whose payloads take `bytes`, each rounded up to SharedSegment::kAlignment.
  // Returns whether Place is to be called
  // for each message; else the payloads travel.
  bool BeginRequest(size_t bytes);
  // The word about the next message's payloads, which are copied; valid until the next call.
  const v1::SharedPayload* Place(std::span<const Bytes> payload);
  // The word about a request whose payloads travel; null: there is nothing to say.
  const v1::SharedPayload* Offer();

  // The word of a response, and whether it was the request's last one. False where it makes no
  // sense. `fields` gets the payloads that lie in the segment.
  bool OnResponse(const v1::SharedPayload& word, std::vector<Bytes>* fields);
  // All of a request's answer has come, with payloads of so many bytes, rounded up as above.
  void OnAnswered(size_t payload_bytes);

 private:
  void MakeSegment();

  std::unique_ptr<SharedSegment> segment_;  // null: there is none
  bool accepted_ = false;                   // by the server
  bool refused_ = false;  // it has answered an offer without a word: it does not share
  int unanswered_ = 0;    // requests
  size_t answer_begin_ = 0;
  size_t next_ = 0;  // where the next payload goes
  size_t most_sent_ = 0;
  size_t most_received_ = 0;
  v1::SharedPayload word_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_
