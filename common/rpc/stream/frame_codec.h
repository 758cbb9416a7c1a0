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

// Replaces `message`. Error: InvalidArgument (names type and size) if the bytes are not such a
// message; `message` is then unspecified but valid. The stream has already checked the size of the
// frame against TransportOptions::max_frame_bytes.
absl::Status ParseFromFrame(const Frame& frame, google::protobuf::MessageLite* message);

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_FRAME_CODEC_H_
