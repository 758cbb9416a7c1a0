#ifndef COHORT_PS_SERVER_SHARED_PAYLOAD_SERVER_H_
#define COHORT_PS_SERVER_SHARED_PAYLOAD_SERVER_H_

#include <absl/status/statusor.h>

#include <memory>

#include "common/rpc/push_pull/peer_segments.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "ps_server/pins.h"

namespace cohort {

namespace v1 {
class SharedPayload;
}

// The server's end of proto/shared_payload.proto, for one stream: maps the segment that the client
// offers. A request that uses the segment holds a reference of its own, so the memory stays mapped
// until that request is answered, even if the client has offered another segment meanwhile.
class SharedPayloadServer {
 public:
  // The segment that `word` names, mapped if it is a new one; null if it cannot be mapped here and
  // the message does not need it. `first`: the message is the first one of its request. Errors:
  // InvalidArgument if a request names two segments, or if payloads lie in one that cannot be
  // mapped.
  absl::StatusOr<std::shared_ptr<SharedSegment>> Find(const v1::SharedPayload& word, bool first);
  // Maps the segments of the client that the message names, in which later messages have payloads.
  // `first`: the message is the first one of its request; then segments that were not named for
  // long are unmapped.
  void MapSegments(const v1::SharedPayload& word, uint64_t sequence, bool first);
  // Those segments. A request that reads them keeps them mapped.
  const std::shared_ptr<PeerSegments>& segments() const { return segments_; }

  // The client of a message whose segment is mapped; null if it maps no weights, or `pins` is null,
  // or the end of its process could not be noticed.
  std::shared_ptr<Pins::Client> FindClient(const v1::SharedPayload& word, Pins* pins);

 private:
  std::shared_ptr<SharedSegment> segment_;  // the newest that was mapped; null: none
  const std::shared_ptr<PeerSegments> segments_ = std::make_shared<PeerSegments>();
  uint64_t client_id_ = 0;  // that was looked for; 0: none yet
  std::shared_ptr<Pins::Client> client_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_SHARED_PAYLOAD_SERVER_H_
