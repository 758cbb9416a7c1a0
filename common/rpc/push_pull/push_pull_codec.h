#ifndef COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_CODEC_H_
#define COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_CODEC_H_

#include <absl/functional/function_ref.h>
#include <absl/status/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/rpc/stream/frame.h"
#include "common/tensor/buffer.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

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

// Counts of what the codec did, for tests and benchmarks. Many codecs and threads may share one.
struct CodecCounters {
  std::atomic<int64_t> frames_encoded{0};
  std::atomic<int64_t> frames_decoded{0};
  std::atomic<int64_t> bytes_shared{0};   // payload sent by reference
  std::atomic<int64_t> bytes_inlined{0};  // payload of small pieces, copied into the header's slice
  std::atomic<int64_t> bytes_copied{0};   // payload copied out by views and cursors
  std::atomic<int64_t> bytes_placed{0};   // payload copied into memory that both ends share
  std::atomic<int64_t> bytes_in_place{0};  // payload that a server reads where the client has it
  std::atomic<int64_t> allocations{0};     // how often the codec's memory grew
};

// Counts the slices that still refer to memory that is lent to frames. The owner may write the
// memory again when idle(). Must outlive the slices: wait for idle() before destroying it, which
// comes shortly after the peer has answered or the stream is closed.
class PayloadLoan {
 public:
  PayloadLoan() = default;
  PayloadLoan(const PayloadLoan&) = delete;
  PayloadLoan& operator=(const PayloadLoan&) = delete;
  bool idle() const { return borrowed_.load(std::memory_order_acquire) == 0; }

 private:
  friend class PushPullEncoder;
  std::atomic<int64_t> borrowed_{0};
};

// Builds one frame after another. Not thread-safe.
class PushPullEncoder {
 public:
  // Pieces shorter than this are copied into the header's slice, which is cheaper than a slice of
  // their own.
  static constexpr size_t kInlineBytes = 2048;

  explicit PushPullEncoder(CodecCounters* counters = nullptr) : counters_(counters) {}
  ~PushPullEncoder() { Clear(); }
  PushPullEncoder(const PushPullEncoder&) = delete;
  PushPullEncoder& operator=(const PushPullEncoder&) = delete;

  // Begins the next payload. Everything appended until the next call belongs to it.
  void BeginPayload();
  // Appends bytes [offset, offset + length) of a buffer by reference. They must not change until
  // they are sent.
  void Append(BufferRef buffer, size_t offset, size_t length);
  // Appends bytes of the caller by reference. They must not change until loan->idle().
  void AppendBorrowed(const void* data, size_t length, PayloadLoan* loan);

  size_t payload_count() const { return payload_bytes_.size(); }
  // Bytes of all payloads so far.
  size_t payload_bytes() const { return total_bytes_; }

  // Returns the frame {1: header, 2: each payload} and, if `shared` is not null, {3: shared}. The
  // encoder is empty again.
  Frame Finish(const google::protobuf::MessageLite& header,
               const google::protobuf::MessageLite* shared = nullptr);
  // Drops everything appended.
  void Clear();
  // For an empty encoder: frees memory that was used for more than `pieces` pieces or payloads.
  // Returns the bytes that it keeps.
  size_t Trim(size_t pieces);

 private:
  struct Piece {
    Buffer* buffer;  // owned reference; null: borrowed
    PayloadLoan* loan;
    const uint8_t* data;
    size_t length;
    size_t payload;  // index of its payload
  };

  void Add(Piece piece);
  grpc::Slice ShareSlice(Piece* piece);
  size_t own_bytes() const {
    return payload_bytes_.capacity() * sizeof(size_t) + pieces_.capacity() * sizeof(Piece) +
           slices_.capacity() * sizeof(grpc::Slice);
  }
  void NoteGrowth();

  CodecCounters* const counters_;
  size_t total_bytes_ = 0;
  size_t capacity_seen_ = 0;
  std::vector<size_t> payload_bytes_;
  std::vector<Piece> pieces_;
  std::vector<grpc::Slice> slices_;
};

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
