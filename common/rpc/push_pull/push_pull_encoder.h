#ifndef COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_ENCODER_H_
#define COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_ENCODER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/rpc/push_pull/codec_counters.h"
#include "common/rpc/stream/frame.h"
#include "common/tensor/buffer.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace cohort {

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

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_PUSH_PULL_ENCODER_H_
