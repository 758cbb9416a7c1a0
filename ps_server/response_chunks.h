#ifndef COHORT_PS_SERVER_RESPONSE_CHUNKS_H_
#define COHORT_PS_SERVER_RESPONSE_CHUNKS_H_

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <span>

#include "common/tablet/push_pull_views.h"

namespace cohort {

namespace v1 {
class PushPullResponseHeader;
}

// The most payload of one response message (one entry may be larger).
inline constexpr size_t kResponseChunkBytes = size_t{2} << 20;

// Cuts a response into messages of about `max_bytes` of payload, so that the client works on one
// while the next is being sent. All except the last have `more`. The push results are in the first
// message; a pull result is repeated in each message that has entries of it. `payload` has one
// slice per entry of the pull results, in order; those that are lent count as nothing. A response
// that fits is passed to `send` unchanged, without a copy of the header.
void ForEachChunk(
    v1::PushPullResponseHeader* header, std::span<PayloadSlice> payload, size_t max_bytes,
    absl::FunctionRef<void(const v1::PushPullResponseHeader&, std::span<PayloadSlice>)> send);

}  // namespace cohort

#endif  // COHORT_PS_SERVER_RESPONSE_CHUNKS_H_
