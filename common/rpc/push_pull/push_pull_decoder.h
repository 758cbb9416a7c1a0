#ifndef COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_DECODER_H_
#define COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_DECODER_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/rpc/push_pull/codec_counters.h"
#include "common/rpc/stream/frame.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace cohort {

// The bytes of one payload within a decoded frame: a run of spans over slices. Valid as long as the
// decoder holds the frame. Spans have no alignment: copy before reading elements.
class PayloadView {
 public:
  PayloadView() = default;
  size_t size() const { return size_; }
  // The bytes if they lie in one piece (or there are none), else null.
  const uint8_t* contiguous() const;
  // Copies all bytes.
  void CopyTo(void* destination) const;
  // Calls `take` with one span after another.
  void ForEachSpan(absl::FunctionRef<void(std::span<const uint8_t>)> take) const;

 private:
  friend class PushPullDecoder;
  friend class PayloadCursor;
  const grpc::Slice* slice_ = nullptr;  // the first one
  size_t offset_ = 0;                   // within it
  size_t size_ = 0;
  CodecCounters* counters_ = nullptr;
};

// Reads a payload from front to back, for work in blocks that stay in the cache.
class PayloadCursor {
 public:
  explicit PayloadCursor(const PayloadView& view)
      : slice_(view.slice_),
        offset_(view.offset_),
        remaining_(view.size_),
        counters_(view.counters_) {}
  size_t remaining() const { return remaining_; }
  // Copies the next `length` bytes, at most remaining().
  void Read(void* destination, size_t length);
  // The next bytes that lie in one piece, at most `limit`. Empty at the end.
  std::span<const uint8_t> Next(size_t limit);

 private:
  const grpc::Slice* slice_;
  size_t offset_;
  size_t remaining_;
  CodecCounters* counters_;
};

// Reads one frame after another. Not thread-safe. Movable, so that a frame whose bytes are needed
// later can be kept with its decoder.
class PushPullDecoder {
 public:
  // A frame with more payloads is refused.
  static constexpr size_t kMaxPayloads = size_t{1} << 20;
  // The size limit of the header (all of its parts together) plus the field about shared payloads.
  // Parsed, they take a multiple of their size.
  static constexpr size_t kMaxHeaderBytes = size_t{4} << 20;

  // `small`: allocates no memory until it is needed.
  explicit PushPullDecoder(CodecCounters* counters = nullptr, bool small = false)
      : counters_(counters) {
    if (small) return;
    // Enough for usual frames. A frame with more slices then does not allocate late.
    slices_.reserve(256);
    shared_.reserve(1024);
  }
  PushPullDecoder(PushPullDecoder&&) = default;
  PushPullDecoder& operator=(PushPullDecoder&&) = default;

  // Takes the frame and replaces `header` (a PushPullHeader or PushPullResponseHeader; missing:
  // empty) and the payloads. Accepts what protobuf's own parser accepts, and skips unknown fields.
  // Error: InvalidArgument if protobuf would refuse it, or beyond kMaxPayloads or kMaxHeaderBytes.
  // Then there are no payloads, and `header` is unspecified but valid.
  absl::Status Decode(Frame frame, google::protobuf::MessageLite* header);

  size_t payload_count() const { return payloads_.size(); }
  // index < payload_count().
  PayloadView payload(size_t index) const;
  // Bytes of all payloads.
  size_t payload_bytes() const { return payload_bytes_; }
  // Bytes of the whole frame, kept until Clear, and of the decoder's own memory, which stays
  // allocated.
  size_t frame_bytes() const { return frame_bytes_; }
  size_t own_bytes() const {
    return slices_.capacity() * sizeof(grpc::Slice) + payloads_.capacity() * sizeof(Range) +
           shared_.capacity();
  }
  // Field 3, a v1.SharedPayload: its presence and its bytes.
  bool has_shared() const { return has_shared_; }
  std::span<const uint8_t> shared() const { return shared_; }
  // Drops the frame, so that its memory can be used again.
  void Clear();

 private:
  class Parser;
  struct Range {
    uint32_t slice;
    uint32_t offset;
    uint32_t size;
  };

  void NoteGrowth();

  CodecCounters* counters_;
  size_t payload_bytes_ = 0;
  size_t frame_bytes_ = 0;
  size_t capacity_seen_ = 0;
  std::vector<grpc::Slice> slices_;
  std::vector<Range> payloads_;
  bool has_shared_ = false;
  std::vector<uint8_t> shared_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_DECODER_H_
