#include "common/rpc/push_pull/push_pull_codec.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/message_lite.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "common/rpc/stream/hand_off.h"

namespace cohort {

// ------------------------------------------------------------------ encoder

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

// ------------------------------------------------------------------ decoder

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kHeader = 1;
constexpr int kPayload = 2;
constexpr int kShared = 3;
// Protobuf's limit for a length-delimited field.
constexpr size_t kMaxLength = INT_MAX - 16;

constexpr uint32_t TagOf(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

// The bytes of slices, one slice after another.
class SliceStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(std::span<const grpc::Slice> slices) : slices_(slices) {}

  bool Next(const void** data, int* size) override {
    while (next_ < slices_.size() && offset_ == slices_[next_].size()) {
      ++next_;
      offset_ = 0;
    }
    if (next_ == slices_.size()) return false;
    *data = slices_[next_].begin() + offset_;
    *size = static_cast<int>(slices_[next_].size() - offset_);
    offset_ = slices_[next_].size();
    count_ += *size;
    return true;
  }
  void BackUp(int count) override {
    offset_ -= static_cast<size_t>(count);
    count_ -= count;
  }
  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (count > 0) {
      if (!Next(&data, &size)) return false;
      if (size > count) BackUp(size - count);
      count -= std::min(size, count);
    }
    return true;
  }
  int64_t ByteCount() const override { return count_; }

  // The slice that Next has returned last, and the offset after what it has returned of it.
  size_t slice() const { return next_; }
  size_t offset() const { return offset_; }

 private:
  const std::span<const grpc::Slice> slices_;
  size_t next_ = 0;
  size_t offset_ = 0;  // within the slice
  int64_t count_ = 0;
};

}  // namespace

// Walks over the fields of the frame.
class PushPullDecoder::Parser {
 public:
  Parser(PushPullDecoder* decoder, google::protobuf::MessageLite* header)
      : decoder_(decoder), header_(header), slices_(decoder->slices_), input_(&slices_) {}

  // Returns null if the frame is well-formed, else what is wrong.
  const char* Parse() {
    while (Position() < decoder_->frame_bytes_) {
      const uint32_t tag = input_.ReadTag();
      if (tag == 0) return "a malformed field tag";
      if (tag == TagOf(kHeader)) {
        if (!ReadHeader()) return too_long_ ? "a header that is too long" : "a malformed header";
      } else if (tag == TagOf(kPayload)) {
        if (!ReadPayload()) return "a payload beyond the end of the frame";
        if (decoder_->payloads_.size() > kMaxPayloads) return "too many payloads";
      } else if (tag == TagOf(kShared)) {
        if (!ReadShared()) {
          return too_long_ ? "a shared-payload field that is too long"
                           : "a malformed shared-payload field";
        }
      } else if (!WireFormatLite::SkipField(&input_, tag)) {
        return "a malformed unknown field";
      }
    }
    return nullptr;
  }

 private:
  bool ReadLength(int* length) {
    return input_.ReadVarintSizeAsInt(length) &&
           static_cast<size_t>(*length) <= decoder_->frame_bytes_ - Position();
  }
  size_t Position() const { return static_cast<size_t>(input_.CurrentPosition()); }

  // True if headers and shared-payload fields of the frame stay within their limit with `length`
  // more bytes.
  bool HasRoom(int length) {
    too_long_ = static_cast<size_t>(length) > header_room_;
    if (!too_long_) header_room_ -= static_cast<size_t>(length);
    return !too_long_;
  }

  bool ReadHeader() {
    int length = 0;
    if (!ReadLength(&length) || !HasRoom(length)) return false;
    const void* bytes = nullptr;
    int here = 0;
    if (!std::exchange(header_seen_, true) && input_.GetDirectBufferPointer(&bytes, &here) &&
        here >= length) {
      return header_->ParseFromArray(bytes, length) && input_.Skip(length);
    }
    // It crosses slices, or is a repeated field, which is merged.
    const CodedInputStream::Limit limit = input_.PushLimit(length);
    const bool merged = header_->MergeFromCodedStream(&input_) && input_.ConsumedEntireMessage();
    input_.PopLimit(limit);
    return merged;
  }

  bool ReadPayload() {
    int length = 0;
    if (!ReadLength(&length)) return false;
    // Takes the next slice if all bytes of this one are read: a payload begins where its bytes are.
    const void* bytes = nullptr;
    int unread = 0;
    input_.GetDirectBufferPointer(&bytes, &unread);
    decoder_->payloads_.push_back(
        {static_cast<uint32_t>(slices_.slice()),
         static_cast<uint32_t>(slices_.offset() - static_cast<size_t>(unread)),
         static_cast<uint32_t>(length)});
    decoder_->payload_bytes_ += static_cast<size_t>(length);
    return input_.Skip(length);
  }

  bool ReadShared() {
    int length = 0;
    if (!ReadLength(&length) || !HasRoom(length)) return false;
    decoder_->shared_.resize(static_cast<size_t>(length));
    decoder_->has_shared_ = true;
    return input_.ReadRaw(decoder_->shared_.data(), length);
  }

  PushPullDecoder* const decoder_;
  google::protobuf::MessageLite* const header_;
  SliceStream slices_;
  CodedInputStream input_;
  bool header_seen_ = false;
  bool too_long_ = false;
  size_t header_room_ = kMaxHeaderBytes;
};

absl::Status PushPullDecoder::Decode(Frame frame, google::protobuf::MessageLite* header) {
  Clear();
  header->Clear();
  const size_t size = frame.size();
  if (size > kMaxLength) return InvalidArgument("a frame of {} bytes is too long", size);
  if (size > 0 && !frame.bytes().Dump(&slices_).ok()) {
    return InvalidArgument("a frame of {} bytes cannot be read", size);
  }
  frame_bytes_ = size;
  const char* wrong = Parser(this, header).Parse();
  NoteGrowth();
  if (counters_ != nullptr) counters_->frames_decoded.fetch_add(1, std::memory_order_relaxed);
  if (wrong == nullptr) return absl::OkStatus();
  Clear();
  return InvalidArgument("a frame of {} bytes is not a {} with payloads: {}", size,
                         header->GetTypeName(), wrong);
}

PayloadView PushPullDecoder::payload(size_t index) const {
  const Range& range = payloads_[index];
  PayloadView view;
  view.slice_ = slices_.data() + range.slice;
  view.offset_ = range.offset;
  view.size_ = range.size;
  view.counters_ = counters_;
  return view;
}

void PushPullDecoder::Clear() {
  slices_.clear();
  payloads_.clear();
  payload_bytes_ = 0;
  frame_bytes_ = 0;
  has_shared_ = false;
  shared_.clear();
}

void PushPullDecoder::NoteGrowth() {
  const size_t capacity = own_bytes();
  if (capacity == capacity_seen_) return;
  capacity_seen_ = capacity;
  if (counters_ != nullptr) counters_->allocations.fetch_add(1, std::memory_order_relaxed);
}

const uint8_t* PayloadView::contiguous() const {
  // Not null for an empty payload: null means that the bytes do not lie in one piece.
  static constexpr uint8_t kNoBytes = 0;
  if (size_ == 0) return &kNoBytes;
  return slice_->size() - offset_ >= size_ ? slice_->begin() + offset_ : nullptr;
}

void PayloadView::CopyTo(void* destination) const { PayloadCursor(*this).Read(destination, size_); }

void PayloadView::ForEachSpan(absl::FunctionRef<void(std::span<const uint8_t>)> take) const {
  PayloadCursor cursor(*this);
  while (cursor.remaining() > 0) take(cursor.Next(size_));
}

std::span<const uint8_t> PayloadCursor::Next(size_t limit) {
  if (remaining_ == 0) return {};
  while (offset_ == slice_->size()) {
    ++slice_;
    offset_ = 0;
  }
  const size_t length = std::min({limit, remaining_, slice_->size() - offset_});
  const std::span<const uint8_t> span(slice_->begin() + offset_, length);
  offset_ += length;
  remaining_ -= length;
  return span;
}

void PayloadCursor::Read(void* destination, size_t length) {
  auto* to = static_cast<uint8_t*>(destination);
  if (counters_ != nullptr) {
    counters_->bytes_copied.fetch_add(static_cast<int64_t>(length), std::memory_order_relaxed);
  }
  while (length > 0) {
    const std::span<const uint8_t> span = Next(length);
    if (span.empty()) return;
    std::memcpy(to, span.data(), span.size());
    to += span.size();
    length -= span.size();
  }
}

}  // namespace cohort
