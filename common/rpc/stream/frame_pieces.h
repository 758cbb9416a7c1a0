#ifndef COHORT_COMMON_RPC_STREAM_FRAME_PIECES_H_
#define COHORT_COMMON_RPC_STREAM_FRAME_PIECES_H_

#include <absl/status/statusor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/rpc/stream/frame.h"

namespace cohort {

// A frame that is longer than a piece may travel in pieces (proto/frame_piece.proto), so that the
// bytes of a long message are seen to move, and no message of gRPC is long. Only streams whose ends
// both ask for it do so: control streams.

// The metadata of a stream whose end joins pieces.
inline constexpr char kPiecesKey[] = "cohort-pieces";

// Cuts a frame into pieces with `piece_bytes` of data each; the last one may have less. References
// the bytes.
std::vector<Frame> CutFrame(const Frame& frame, size_t piece_bytes);

// Joins the pieces that a stream receives. Not thread-safe.
//
//   if (!joiner.Takes(frame)) return OnFrame(std::move(frame));
//   COHORT_ASSIGN_OR_RETURN(const bool whole, joiner.Add(std::move(frame)));
//   if (whole) OnFrame(joiner.Finish());
class FrameJoiner {
 public:
  struct Limits {
    size_t piece_bytes = 0;       // as the peer cuts
    size_t message_bytes = 0;     // the most of one message
    size_t unfinished_bytes = 0;  // the most of all messages that `unfinished` counts
  };
  // `unfinished`: the bytes of pieces that many joiners hold. Outlives this.
  FrameJoiner(const Limits& limits, std::atomic<size_t>* unfinished)
      : limits_(limits), unfinished_(unfinished) {}
  ~FrameJoiner() { Drop(); }
  FrameJoiner(const FrameJoiner&) = delete;
  FrameJoiner& operator=(const FrameJoiner&) = delete;

  // True if the frame is a piece: after the first one of a message, every frame is.
  bool Takes(const Frame& frame) const;
  // Adds a piece that Takes has accepted. Returns true if the message is whole. It takes no memory
  // for bytes that have not come. Errors: InvalidArgument (no such piece can come now),
  // ResourceExhausted (a limit). Nothing is held then.
  absl::StatusOr<bool> Add(Frame piece);
  // The whole message.
  Frame Finish();

 private:
  void Drop();

  const Limits limits_;
  std::atomic<size_t>* const unfinished_;
  std::vector<grpc::Slice> slices_;
  uint64_t whole_ = 0;  // 0: no message has begun
  size_t held_ = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_STREAM_FRAME_PIECES_H_
