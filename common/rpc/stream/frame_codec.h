#ifndef COHORT_COMMON_RPC_STREAM_FRAME_CODEC_H_
#define COHORT_COMMON_RPC_STREAM_FRAME_CODEC_H_

#include <absl/status/status.h>

#include "common/rpc/stream/frame.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace cohort {

// Control messages: a frame is one serialized message, in one slice.
Frame SerializeToFrame(const google::protobuf::MessageLite& message);

// Replaces `message`. InvalidArgument (names the type and the size) where the bytes are no such
// message; `message` is then unspecified but valid. The frame's size was checked against
// TransportOptions::max_frame_bytes when it arrived.
absl::Status ParseFromFrame(const Frame& frame, google::protobuf::MessageLite* message);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_FRAME_CODEC_H_
