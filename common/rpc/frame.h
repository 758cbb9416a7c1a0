#ifndef COHORT_COMMON_RPC_FRAME_H_
#define COHORT_COMMON_RPC_FRAME_H_

#include <grpcpp/support/byte_buffer.h>

namespace cohort {

// One message of a stream: its bytes as refcounted slices.
using Frame = grpc::ByteBuffer;

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_FRAME_H_
