#ifndef COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_CODEC_H_
#define COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_CODEC_H_

#include <cstdint>
#include <string>

#include "common/rpc/push_pull/push_pull_decoder.h"
#include "common/rpc/push_pull/push_pull_encoder.h"

namespace cohort {

// The messages of the data path: PushPullRequest and PushPullResponse of
// proto/parameter_server.proto, written and read over slices without copying a payload. The frame
// is exactly the protobuf bytes
//
//   0a <length> <header>  { 12 <length> <payload bytes> } ...  [ 1a <length> <shared> ]
//
// so any protobuf client can exchange them, with the fields in any order. Both ends reuse their
// memory: in the steady state neither class allocates (gRPC itself does, for its slices).
//
//   encoder.BeginPayload();                                 // a server answers a pull
//   encoder.Append(block.buffer, block.offset, block.bytes);
//   stream->Send(encoder.Finish(response_header));
//
//   COHORT_RETURN_IF_ERROR(decoder.Decode(std::move(frame), &request_header));
//   decoder.payload(0).CopyTo(destination);                 // after checking its size()

// The metadata with which a client of PushPull names the server incarnation that it means, and its
// value.
inline constexpr char kPsIncarnationKey[] = "cohort-ps-incarnation";
std::string IncarnationText(uint64_t incarnation);

// The longest HTTP/2 frame that both ends of the data path ask for
// (TransportOptions::http2_frame_bytes). gRPC's 16 KiB cut a large pull or push into thousands of
// frames, each with slices of its own.
inline constexpr int kPushPullHttp2FrameBytes = 1 << 20;

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_CODEC_H_
