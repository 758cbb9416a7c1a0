#ifndef COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_
#define COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/exchange/exchange_message.h"
#include "common/exchange/push_areas.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

// The client's end of proto/shared_payload.proto, for one connection over a unix socket.
//
//   nothing ──► offered ──► used
//      ▲                      │     a request that does not fit, or that follows an unanswered
//      └──────────────────────┘     one, gets a new segment
//
// The sizes of earlier requests and answers decide the size of a segment; one that has become much
// too large is replaced. Allocates only when it creates a segment.
class SharedPayloadClient {
 public:
  // A smaller payload goes through the socket: shared memory would save little.
  static constexpr size_t kLeastBytes = 16 << 10;
  // Larger requests and answers go in chunks through the socket.
  static constexpr size_t kMostBytes = size_t{1} << 30;
  // The most that the first segment sets aside for answers: the server may lend larger values.
  static constexpr size_t kFirstAnswerBytes = size_t{4} << 20;
  // A segment of more bytes is replaced when a fourth of it would do.
  static constexpr size_t kShrinkFrom = size_t{4} << 20;

  // Begins a request. `bytes`: what its payloads take, each rounded up to
  // SharedSegment::kAlignment. `always`: offer a segment even if little is sent, because values of
  // the server are read where they are. Returns true if the caller must call Place for each
  // message; else the payloads go through the socket.
  bool BeginRequest(size_t bytes, bool always = false);
  // Copies the next message's payloads to the segment, except those that lie in an area that the
  // server has mapped. Returns their description, valid until the next call; the caller may add
  // fields. `areas` may be null.
  v1::SharedPayload* Place(std::span<const Bytes> payload, uint64_t sequence, PushAreas* areas);
  // The memory of these bytes, if they are to be read there; else null.
  const SharedMemory* InPlace(const Bytes& bytes, const PushAreas* areas) const;
  // The description of the segment for a message whose payloads go through the socket; null: there
  // is none. As for Place.
  v1::SharedPayload* Offer();
  // The server's answer to an offer did not mention it.
  bool refused() const { return refused_; }

  // A smaller payload is copied: it is cheaper than to describe where it is.
  static constexpr size_t kLeastInPlace = 4 << 10;

  // Handles what a response says about shared memory. Returns the segment that it names, or null if
  // the client has given up that segment, and with it the request that the response answers.
  const SharedSegment* OnResponse(const v1::SharedPayload& word);
  // The whole answer to a request has come; its payloads take `payload_bytes`, rounded up as above.
  // `mapped_more`: it named memory that is mapped now, so later answers copy less.
  void OnAnswered(size_t payload_bytes, bool mapped_more = false);
  // The server has mapped the segment.
  bool accepted() const { return accepted_; }

 private:
  // The largest of the newest sizes: of at least kWindow, at most twice as many.
  class Largest {
   public:
    void Add(size_t bytes) {
      newer_ = std::max(newer_, bytes);
      if (++count_ < kWindow) return;
      older_ = std::exchange(newer_, 0);
      count_ = 0;
    }
    size_t bytes() const { return std::max(older_, newer_); }

   private:
    static constexpr int kWindow = 32;
    size_t older_ = 0;
    size_t newer_ = 0;
    int count_ = 0;
  };

  // What answers take, as far as it is known.
  size_t Received() const {
    return first_ ? std::min(received_.bytes(), kFirstAnswerBytes) : received_.bytes();
  }
  bool Fits(size_t bytes) const;
  void MakeSegment();

  std::unique_ptr<SharedSegment> segment_;  // null: there is none
  bool first_ = true;                       // no segment was made yet
  bool accepted_ = false;                   // the server has mapped it
  bool refused_ = false;  // the server's answer to an offer did not mention it: it does not share
  std::vector<uint64_t> mapped_;  // ids of areas that the server has mapped
  int unanswered_ = 0;            // requests
  size_t answer_begin_ = 0;
  size_t next_ = 0;  // where the next payload goes
  Largest sent_;
  Largest received_;
  v1::SharedPayload word_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_SHARED_PAYLOAD_CLIENT_H_
