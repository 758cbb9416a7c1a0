#ifndef COHORT_PS_SERVER_RESPONDER_H_
#define COHORT_PS_SERVER_RESPONDER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/rpc/push_pull/peer_segments.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "common/tablet/push_pull_views.h"
#include "proto/shared_payload.pb.h"
#include "ps_server/pins.h"
#include "ps_server/ps_metrics.h"
#include "ps_server/unsent_answers.h"

namespace cohort {

namespace v1 {
class PushPullResponseHeader;
}

class Stream;

// Turns the answer of one request after another into frames. Values travel by reference, are lent
// where they are if the client has mapped that memory, or are copied to the place in shared memory
// that the request has set aside for them. Not thread-safe.
class Responder {
 public:
  // `counters` and `metrics` outlive the responder. `answers`: may be null.
  Responder(CodecCounters* counters, PsMetrics* metrics, std::shared_ptr<UnsentAnswers> answers)
      : counters_(counters), metrics_(metrics), answers_(std::move(answers)), encoder_(counters) {}

  // Sets the segment that the next answer names as mapped here. Null: the answer names none. The
  // caller keeps the segment mapped until the answer is sent.
  void SetSegment(SharedSegment* segment) { segment_ = segment; }
  // The part of the segment into which values of the next answer may be written. A part that is not
  // in the segment, or has no bytes, holds none.
  void SetArea(uint64_t begin, uint64_t bytes);

  // Ids of segments of the client that are mapped here. Every message of the next answer has them.
  void SetMapped(const PeerSegments* peers) { peers_ = peers; }
  // Lends values of the next answer, whose request has this sequence, that lie in segments that the
  // client has mapped (`mapped`: their ids). Null: lends none.
  void SetLending(std::shared_ptr<Pins::Client> client, std::span<const uint64_t> mapped,
                  uint64_t sequence);

  // Sends an answer, in several frames if it is large. Takes the references of `payload`. `header`
  // may be changed.
  void Send(v1::PushPullResponseHeader* header, std::span<PayloadSlice> payload,
            const std::shared_ptr<Stream>& stream);
  // Sends a part of the answer that has no values.
  void SendPart(const v1::PushPullResponseHeader& header, Stream* stream) {
    SendFrame(header, {}, stream);
  }
  // Sends a header alone.
  void SendHeader(const v1::PushPullResponseHeader& header, Stream* stream);

  // Releases the memory that only answers of more than `slices` slices need. Returns the bytes that
  // are kept.
  size_t Trim(size_t slices);

 private:
  void SendFrame(const v1::PushPullResponseHeader& header, std::span<PayloadSlice> payload,
                 Stream* stream);
  void Lend(std::span<PayloadSlice> payload);
  void Announce();
  bool Place(std::span<PayloadSlice> payload);
  void PlaceAmongLent(std::span<PayloadSlice> payload);
  bool CopyToArea(const PayloadSlice& slice);
  // Values that travel count until they are sent.
  BufferRef Counted(BufferRef buffer);

  CodecCounters* const counters_;
  PsMetrics* const metrics_;
  const std::shared_ptr<UnsentAnswers> answers_;
  PushPullEncoder encoder_;
  SharedSegment* segment_ = nullptr;
  uint64_t next_ = 0;  // where in the segment the next value may go
  uint64_t end_ = 0;
  std::shared_ptr<Pins::Client> client_;  // null: nothing is lent
  std::vector<uint64_t> mapped_;
  uint64_t sequence_ = 0;
  const PeerSegments* peers_ = nullptr;  // null: none is mapped
  bool lends_ = false;                   // some value of this answer is lent
  std::vector<BufferRef> announced_;     // blocks in segments that the client may map next
  v1::SharedPayload word_;
  // The answer that is being sent.
  size_t payload_bytes_ = 0;
  std::weak_ptr<Stream> stream_;
  std::shared_ptr<UnsentAnswers::Answer> counted_;  // null: nothing of it counts yet
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_RESPONDER_H_
