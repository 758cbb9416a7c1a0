#ifndef COHORT_PS_SERVER_SHARED_PAYLOAD_SERVER_H_
#define COHORT_PS_SERVER_SHARED_PAYLOAD_SERVER_H_

#include <absl/status/statusor.h>

#include <memory>

#include "common/rpc/push_pull/shared_segment.h"

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

 private:
  std::shared_ptr<SharedSegment> segment_;  // the newest that was mapped; null: none
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_SHARED_PAYLOAD_SERVER_H_
