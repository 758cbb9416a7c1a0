#include <fmt/format.h>
#include <google/protobuf/message_lite.h>

#include <cstring>

#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/hand_off.h"

namespace cohort {
namespace {

constexpr uint8_t kHeaderTag = 0x0a;   // field 1, length-delimited
constexpr uint8_t kPayloadTag = 0x12;  // field 2, length-delimited
constexpr uint8_t kSharedTag = 0x1a;   // field 3, length-delimited

size_t VarintSize(uint64_t value) {
  size_t size = 1;
  for (; value >= 0x80; value >>= 7) ++size;
  return size;
}

uint8_t* WriteVarint(uint64_t value, uint8_t* to) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<uint8_t>(value | 0x80);
  *to++ = static_cast<uint8_t>(value);
  return to;
}

// Called by any of gRPC's threads when it releases the slice.
void DropBuffer(void* buffer) {
  HandOffAcquire(buffer);
  BufferRef::Adopt(static_cast<Buffer*>(buffer));
}

// A part of the header's slice, or the whole slice if it is not cut.
grpc::Slice SubSlice(const grpc::Slice& slice, size_t begin, size_t end) {
  return begin == 0 && end == slice.size() ? slice : slice.sub(begin, end);
}

}  // namespace

std::string IncarnationText(uint64_t incarnation) { return fmt::format("{:016x}", incarnation); }

void PushPullEncoder::BeginPayload() { payload_bytes_.push_back(0); }

void PushPullEncoder::Add(Piece piece) {
  if (payload_bytes_.empty()) BeginPayload();
  piece.payload = payload_bytes_.size() - 1;
  payload_bytes_.back() += piece.length;
  total_bytes_ += piece.length;
  pieces_.push_back(piece);
}

void PushPullEncoder::Append(BufferRef buffer, size_t offset, size_t length) {
  if (length == 0) return;
  const uint8_t* data = buffer->data() + offset;
  Add({.buffer = buffer.Detach(), .loan = nullptr, .data = data, .length = length});
}

void PushPullEncoder::AppendBorrowed(const void* data, size_t length, PayloadLoan* loan) {
  if (length == 0) return;
  Add({.buffer = nullptr,
       .loan = loan,
       .data = static_cast<const uint8_t*>(data),
       .length = length});
}

grpc::Slice PushPullEncoder::ShareSlice(Piece* piece) {
  void* data = const_cast<uint8_t*>(piece->data);  // gRPC only reads it
  if (piece->buffer != nullptr) {
    HandOffRelease(piece->buffer);
    return grpc::Slice(data, piece->length, &DropBuffer, std::exchange(piece->buffer, nullptr));
  }
  piece->loan->borrowed_.fetch_add(1, std::memory_order_relaxed);
  HandOffRelease(piece->loan);
  return grpc::Slice(
      data, piece->length,
      [](void* loan) {
        HandOffAcquire(loan);
        static_cast<PayloadLoan*>(loan)->borrowed_.fetch_sub(1, std::memory_order_release);
      },
      piece->loan);
}

Frame PushPullEncoder::Finish(const google::protobuf::MessageLite& header,
                              const google::protobuf::MessageLite* shared) {
  const size_t header_bytes = header.ByteSizeLong();
  size_t small_bytes = 1 + VarintSize(header_bytes) + header_bytes;
  for (size_t bytes : payload_bytes_) small_bytes += 1 + VarintSize(bytes);
  const size_t shared_bytes = shared == nullptr ? 0 : shared->ByteSizeLong();
  if (shared != nullptr) small_bytes += 1 + VarintSize(shared_bytes) + shared_bytes;
  size_t inlined = 0;
  for (const Piece& piece : pieces_) inlined += piece.length < kInlineBytes ? piece.length : 0;

  // Everything that is not sent by reference goes into one slice, which is cut at each referenced
  // piece.
  const grpc::Slice small(small_bytes + inlined);
  auto* const begin = const_cast<uint8_t*>(small.begin());
  uint8_t* at = begin;
  *at++ = kHeaderTag;
  at = WriteVarint(header_bytes, at);
  at = header.SerializeWithCachedSizesToArray(at);
  size_t cut = 0;
  size_t next = 0;
  for (size_t payload = 0; payload < payload_bytes_.size(); ++payload) {
    *at++ = kPayloadTag;
    at = WriteVarint(payload_bytes_[payload], at);
    for (; next < pieces_.size() && pieces_[next].payload == payload; ++next) {
      Piece& piece = pieces_[next];
      if (piece.length < kInlineBytes) {
        std::memcpy(at, piece.data, piece.length);
        at += piece.length;
        continue;
      }
      const size_t here = static_cast<size_t>(at - begin);
      if (here > cut) slices_.push_back(SubSlice(small, cut, here));
      cut = here;
      slices_.push_back(ShareSlice(&piece));
    }
  }
  if (shared != nullptr) {
    *at++ = kSharedTag;
    at = WriteVarint(shared_bytes, at);
    at = shared->SerializeWithCachedSizesToArray(at);
  }
  if (cut < small.size()) slices_.push_back(SubSlice(small, cut, small.size()));

  if (counters_ != nullptr) {
    counters_->frames_encoded.fetch_add(1, std::memory_order_relaxed);
    counters_->bytes_inlined.fetch_add(static_cast<int64_t>(inlined), std::memory_order_relaxed);
    counters_->bytes_shared.fetch_add(static_cast<int64_t>(total_bytes_ - inlined),
                                      std::memory_order_relaxed);
  }
  NoteGrowth();
  Frame frame(slices_.data(), slices_.size());
  Clear();
  return frame;
}

void PushPullEncoder::Clear() {
  for (Piece& piece : pieces_) {
    if (piece.buffer != nullptr) DropBuffer(piece.buffer);
  }
  pieces_.clear();
  payload_bytes_.clear();
  slices_.clear();
  total_bytes_ = 0;
}

size_t PushPullEncoder::Trim(size_t pieces) {
  if (pieces_.capacity() > pieces || payload_bytes_.capacity() > pieces ||
      slices_.capacity() > pieces) {
    std::vector<size_t>().swap(payload_bytes_);
    std::vector<Piece>().swap(pieces_);
    std::vector<grpc::Slice>().swap(slices_);
  }
  return own_bytes();
}

void PushPullEncoder::NoteGrowth() {
  const size_t capacity = own_bytes();
  if (capacity == capacity_seen_) return;
  capacity_seen_ = capacity;
  if (counters_ != nullptr) counters_->allocations.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace cohort
